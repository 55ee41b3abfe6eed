//! Values as Python prints them (str, repr) and as its json.dumps writes them.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::template::MAX_TEXT;

/// Nested deeper than this is a fault.
const MAX_DEPTH: usize = 200;

pub fn str_of(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(String::new()),
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        _ => repr_of(value),
    }
}

pub fn repr_of(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_repr(&mut out, value, 0)?;
    Ok(out)
}

fn write_repr(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    check(out, depth)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => quote(out, value.as_str().unwrap_or_default()),
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                separate(out, i, ", ");
                write_repr(out, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let tuple = value.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            let mut count = 0;
            for item in value.try_iter()? {
                separate(out, count, ", ");
                write_repr(out, &item, depth + 1)?;
                count += 1;
            }
            if tuple && count == 1 {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Values share their parts: a small one can have a text without end.
fn check(out: &str, depth: usize) -> Result<(), Error> {
    let fault = match depth {
        _ if out.len() > MAX_TEXT => format!("a value's text has more than {MAX_TEXT} bytes"),
        depth if depth > MAX_DEPTH => "value is nested too deeply".into(),
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidOperation, fault))
}

fn separate(out: &mut String, index: usize, separator: &str) {
    if index > 0 {
        out.push_str(separator);
    }
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(x) => float(x),
        Err(_) => value.to_string(),
    }
}

/// repr(float): the shortest digits that read back, as a plain number for
/// exponents from -4 to 15, else with an exponent of two digits or more.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.into();
    }
    let short = format!("{x:e}");
    let (digits, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = x.to_string();
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// repr(str).
fn quote(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if printable(c) => out.push(c),
            c => match c as u32 {
                code @ 0..=0xFF => out.push_str(&format!("\\x{code:02x}")),
                code @ 0..=0xFFFF => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    out.push(quote);
}

/// str.isprintable for one character: spaces other than U+0020, controls,
/// format characters and private use are not.
fn printable(c: char) -> bool {
    let separator = c != ' ' && c.is_whitespace();
    !separator
        && !c.is_control()
        && !matches!(c,
            '\u{AD}' | '\u{600}'..='\u{605}' | '\u{61C}' | '\u{6DD}' | '\u{70F}'
            | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{E000}'..='\u{F8FF}' | '\u{FEFF}'
            | '\u{FFF0}'..='\u{FFFB}' | '\u{E0000}'..='\u{10FFFF}')
}

/// The options of json.dumps.
pub struct Dumps<'a> {
    pub ensure_ascii: bool,
    pub sort_keys: bool,
    pub indent: Option<usize>,
    pub item_separator: &'a str,
    pub key_separator: &'a str,
    /// A character that ensure_ascii leaves as it is.
    pub verbatim: Option<char>,
}

impl Dumps<'_> {
    pub fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        check(out, depth)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&json_number(value)),
            ValueKind::String => self.string(out, value.as_str().unwrap_or_default()),
            ValueKind::Map => self.map(out, value, depth)?,
            ValueKind::Seq => self.list(out, value, depth)?,
            kind => {
                let text = match kind {
                    ValueKind::Undefined => "an undefined value".into(),
                    kind => format!("a value of type {kind}"),
                };
                let text = format!("{text} is not JSON serializable");
                return Err(Error::new(ErrorKind::InvalidOperation, text));
            }
        }
        Ok(())
    }

    fn list(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        out.push('[');
        let mut count = 0;
        for item in value.try_iter()? {
            self.next_item(out, count, depth + 1);
            self.write(out, &item, depth + 1)?;
            count += 1;
        }
        self.end(out, count, depth);
        out.push(']');
        Ok(())
    }

    fn map(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        out.push('{');
        for (i, key) in keys.iter().enumerate() {
            self.next_item(out, i, depth + 1);
            self.string(out, &json_key(key)?);
            out.push_str(self.key_separator);
            self.write(out, &value.get_item(key)?, depth + 1)?;
        }
        self.end(out, keys.len(), depth);
        out.push('}');
        Ok(())
    }

    fn next_item(&self, out: &mut String, index: usize, depth: usize) {
        separate(out, index, self.item_separator);
        self.break_line(out, depth);
    }

    fn end(&self, out: &mut String, count: usize, depth: usize) {
        if count > 0 {
            self.break_line(out, depth);
        }
    }

    fn break_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{C}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
                c if self.ensure_ascii && c > '\u{7E}' && Some(c) != self.verbatim => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn json_number(value: &Value) -> String {
    match number(value).as_str() {
        "nan" => "NaN".into(),
        "inf" => "Infinity".into(),
        "-inf" => "-Infinity".into(),
        other => other.to_owned(),
    }
}

fn json_key(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
        ValueKind::Number => json_number(key),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.into(),
        ValueKind::None => "null".into(),
        kind => {
            let text = format!("keys must be str, int, float, bool or None, not {kind}");
            return Err(Error::new(ErrorKind::InvalidOperation, text));
        }
    })
}
