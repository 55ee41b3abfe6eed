//! Rewrites what Jinja2 allows and minijinja does not into what it does allow:
//!   a % b          __percent(a , b), for the formatting of strings
//!   a[b:c]         __sliceable(a)[b:c], for slices of null
//!   a + b          __charged(a) + __charged(b), for sums of lists
//!   {% generation %} x {% endgeneration %}     {% if true %} x {% endif %}
//! Lines keep their numbers. Nothing else changes, faults included.

pub const PERCENT: &str = "__percent";
pub const SLICEABLE: &str = "__sliceable";
pub const CHARGED: &str = "__charged";

const KEYWORDS: &[&str] = &[
    "and",
    "or",
    "not",
    "if",
    "else",
    "elif",
    "in",
    "is",
    "for",
    "set",
    "recursive",
];

/// The parts of one tag. It bounds how deep the syntax tree of an expression
/// can be, and so the time that compiling it takes.
const MAX_TOKENS: usize = 2000;

/// Where a tag ends, or why it is refused.
type End = Result<usize, String>;

pub fn rewrite(source: &str) -> Result<String, String> {
    let mut edits = Edits::default();
    let mut at = 0;
    while let Some(found) = source[at..].find('{') {
        let open = at + found;
        at = match source.as_bytes().get(open + 1) {
            Some(b'#') => find_end(source, open + 2, "#}"),
            Some(b'{') => {
                Tag::new(source, behind_sign(source, open + 2), "}}", &mut edits).run()?
            }
            Some(b'%') => statement(source, open + 2, &mut edits)?,
            _ => open + 1,
        };
    }
    Ok(edits.apply(source))
}

fn find_end(source: &str, from: usize, end: &str) -> usize {
    source[from..]
        .find(end)
        .map_or(source.len(), |at| from + at + end.len())
}

/// From behind `{%` to behind the end of the tag, or of the raw block.
fn statement(source: &str, from: usize, edits: &mut Edits) -> End {
    let (word, end) = tag_word(source, from);
    match &source[word..end] {
        "raw" => return Ok(raw_end(source, end)),
        "generation" => edits.replace(word, end, "if true"),
        "endgeneration" => edits.replace(word, end, "endif"),
        _ => {}
    }
    Tag::new(source, end, "%}", edits).run()
}

/// Behind the sign that says what becomes of the space before a tag.
fn behind_sign(source: &str, from: usize) -> usize {
    from + usize::from(matches!(source.as_bytes().get(from), Some(b'-' | b'+')))
}

/// Where the first word of a tag begins and ends.
fn tag_word(source: &str, from: usize) -> (usize, usize) {
    let bytes = source.as_bytes();
    let mut at = behind_sign(source, from);
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    (at, word_end(bytes, at))
}

fn raw_end(source: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(found) = source[at..].find("{%") {
        at += found + 2;
        let (word, end) = tag_word(source, at);
        if &source[word..end] == "endraw" {
            return find_end(source, end, "%}");
        }
    }
    source.len()
}

fn word_end(bytes: &[u8], from: usize) -> usize {
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
    from + bytes[from..].iter().take_while(|b| word(b)).count()
}

/// One bracket, or the tag itself.
struct Level {
    open: usize,
    /// Where the value that a subscript applies to begins.
    base: Option<usize>,
    has_colon: bool,
    /// Where the chain of * / // % begins that the next operand belongs to.
    chain: Option<usize>,
    /// Where the last operand begins, as far as it can take a subscript.
    operand_start: Option<usize>,
    /// The last token ended an operand.
    operand: bool,
    /// A call of PERCENT waits for its right operand to end.
    pending: bool,
    /// The chain is an operand of a sum.
    summed: bool,
}

impl Level {
    fn new(open: usize, base: Option<usize>) -> Self {
        Level {
            open,
            base,
            has_colon: false,
            chain: None,
            operand_start: None,
            operand: false,
            pending: false,
            summed: false,
        }
    }
}

struct Tag<'s, 'e> {
    source: &'s str,
    at: usize,
    end: &'static str,
    edits: &'e mut Edits,
    levels: Vec<Level>,
    /// The end of the last token.
    last_end: usize,
    /// The last token was `.` or `|`: a name belongs to it.
    dotted: bool,
    /// The last token was `is` or the `not` behind it: a test's name follows.
    test: bool,
}

impl<'s, 'e> Tag<'s, 'e> {
    fn new(source: &'s str, at: usize, end: &'static str, edits: &'e mut Edits) -> Self {
        let levels = vec![Level::new(at, None)];
        Tag {
            source,
            at,
            end,
            edits,
            levels,
            last_end: at,
            dotted: false,
            test: false,
        }
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("the tag itself is a level")
    }

    /// Reads to the end of the tag and returns where it ends.
    fn run(mut self) -> End {
        let bytes = self.source.as_bytes();
        let begin = self.at;
        let mut tokens = 0;
        while self.at < bytes.len() {
            let byte = bytes[self.at];
            if byte.is_ascii_whitespace() {
                self.at += 1;
                continue;
            }
            if self.levels.len() == 1 && self.at_end() {
                self.end_chain();
                return Ok(find_end(self.source, self.at, self.end));
            }
            tokens += 1;
            if tokens > MAX_TOKENS {
                let line = 1 + self.source[..begin].matches('\n').count();
                return Err(format!(
                    "a tag has more than {MAX_TOKENS} tokens (line {line})"
                ));
            }
            let start = self.at;
            self.at = match byte {
                b'\'' | b'"' => string_end(bytes, start),
                _ => word_end(bytes, start).max(start + 1),
            };
            let is_word = byte >= 0x80 || byte == b'_' || byte.is_ascii_alphanumeric();
            if is_word || matches!(byte, b'\'' | b'"') {
                self.operand(start);
            } else {
                self.operator(byte, start);
            }
            self.last_end = self.at;
        }
        Ok(self.at)
    }

    fn at_end(&self) -> bool {
        let rest = &self.source[self.at..];
        rest.starts_with(self.end)
            || rest
                .strip_prefix(['-', '+'])
                .is_some_and(|r| r.starts_with(self.end))
    }

    fn operand(&mut self, start: usize) {
        let word = &self.source[start..self.at];
        let test = std::mem::take(&mut self.test);
        if std::mem::take(&mut self.dotted) {
            self.level().operand = true;
        } else if test || word == "is" {
            self.test = !test || word == "not";
            self.level().operand = true;
        } else if KEYWORDS.contains(&word) {
            self.reset();
        } else {
            self.begin(start);
            self.level().operand = true;
        }
    }

    /// An operand begins here unless one is being read.
    fn begin(&mut self, start: usize) {
        let level = self.level();
        if !level.operand {
            level.chain.get_or_insert(start);
            level.operand_start = Some(start);
        }
    }

    fn operator(&mut self, byte: u8, start: usize) {
        self.dotted = false;
        self.test = false;
        let operand = self.level().operand;
        match byte {
            b'.' => self.dotted = true,
            b'|' => {
                self.dotted = true;
                self.level().operand_start = None;
            }
            b'(' | b'[' | b'{' => {
                let base = self.level().operand_start;
                let subscript = operand && byte == b'[';
                self.begin(start);
                self.levels
                    .push(Level::new(start, base.filter(|_| subscript)));
            }
            b')' | b']' | b'}' if self.levels.len() > 1 => self.close(),
            b':' => {
                self.reset();
                self.level().has_colon = true;
            }
            b'*' if operand && self.source.as_bytes().get(self.at) == Some(&b'*') => {
                self.at += 1;
                self.level().operand = false;
            }
            b'*' | b'/' if operand => {
                self.close_pending();
                self.level().operand = false;
            }
            b'%' if operand => self.percent(start),
            b'+' if operand => {
                self.level().summed = true;
                self.reset();
                self.level().summed = true;
            }
            b'-' | b'+' if !operand => {
                self.level().chain.get_or_insert(start);
            }
            _ => self.reset(),
        }
    }

    fn percent(&mut self, start: usize) {
        self.close_pending();
        if let Some(chain) = self.level().chain {
            self.edits.open(chain, PERCENT);
            self.edits.replace(start, start + 1, ",");
            self.level().pending = true;
        }
        self.level().operand = false;
    }

    /// A closing bracket: the level below has its operand.
    fn close(&mut self) {
        self.end_chain();
        let inner = self.levels.pop().expect("checked by the caller");
        self.level().operand = true;
        if let Some(base) = inner.base.filter(|_| inner.has_colon) {
            self.edits.open(base, SLICEABLE);
            self.edits.close(inner.open);
        }
    }

    fn close_pending(&mut self) {
        if std::mem::take(&mut self.level().pending) {
            self.edits.close(self.last_end);
        }
    }

    /// Something that binds looser than * / // % comes.
    fn end_chain(&mut self) {
        self.close_pending();
        let level = self.level();
        let chain = level.chain.take();
        if std::mem::take(&mut level.summed) {
            if let Some(start) = chain {
                self.edits.open(start, CHARGED);
                self.edits.close(self.last_end);
            }
        }
    }

    /// A new chain begins.
    fn reset(&mut self) {
        self.end_chain();
        let level = self.level();
        level.operand_start = None;
        level.operand = false;
    }
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Changes to a text, by position. A call that is opened later at the same
/// place contains the ones opened before.
#[derive(Default)]
struct Edits {
    changes: Vec<Change>,
}

struct Change {
    start: usize,
    end: usize,
    text: String,
    /// Among changes at one place: closing brackets, then calls from the last
    /// to the first.
    order: isize,
}

impl Edits {
    fn open(&mut self, at: usize, name: &str) {
        let order = -(self.changes.len() as isize);
        self.changes.push(Change {
            start: at,
            end: at,
            text: format!("{name}("),
            order,
        });
    }

    fn close(&mut self, at: usize) {
        let order = isize::MIN;
        self.changes.push(Change {
            start: at,
            end: at,
            text: ")".into(),
            order,
        });
    }

    fn replace(&mut self, start: usize, end: usize, text: &str) {
        self.changes.push(Change {
            start,
            end,
            text: text.into(),
            order: 0,
        });
    }

    fn apply(mut self, source: &str) -> String {
        self.changes
            .sort_by_key(|change| (change.start, change.order));
        let mut out = String::with_capacity(source.len() + 16 * self.changes.len());
        let mut at = 0;
        for change in &self.changes {
            out.push_str(&source[at..change.start]);
            out.push_str(&change.text);
            at = change.end;
        }
        out.push_str(&source[at..]);
        out
    }
}
