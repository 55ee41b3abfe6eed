//! Chat templates with the Jinja2 environment that transformers gives them.

use std::panic::resume_unwind;
use std::{io, thread};

use minijinja::formatting::{format, FormatStyle};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::python::{self, Dumps};
use crate::rewrite::{rewrite, CHARGED, PERCENT, SLICEABLE};

/// Bounds time and memory: an instruction costs 1, and so do 64 bytes made.
const FUEL: u64 = 4_000_000;
/// Bytes; the templates of known models have less than 60,000.
const MAX_SOURCE: usize = 256 << 10;
pub const MAX_TEXT: usize = 16 << 20;
/// Bytes. Parsing, compiling and dropping a syntax tree take stack for each
/// level of it: up to 1,200 bytes for an elif, which has 10 bytes of source,
/// and 430 for a minus, which has one.
const STACK: usize = 256 << 20;
const MAX_WIDTH: usize = 1 << 16;
const NAME: &str = "chat template";

pub struct Template {
    environment: Environment<'static>,
}

type Outcome<T> = Result<T, Error>;

impl Template {
    pub fn new(source: &str) -> Result<Self, String> {
        if source.len() > MAX_SOURCE {
            let size = source.len();
            return Err(format!("{size} bytes, more than the limit of {MAX_SOURCE}"));
        }
        let source = rewrite(source)?;
        on_large_stack(|| {
            let mut environment = environment();
            environment
                .add_template_owned(NAME, source)
                .map_err(|e| explain(&e))?;
            Ok(Template { environment })
        })
    }

    /// `now` is what strftime_now sees, in seconds since 1970; `mark` is a
    /// character that JSON in ASCII leaves as it is.
    pub fn render(&self, context: &str, now: i64, mark: Option<char>) -> Result<String, String> {
        on_large_stack(|| self.render_here(context, now, mark))
    }

    fn render_here(&self, context: &str, now: i64, mark: Option<char>) -> Result<String, String> {
        let context: serde_json::Value =
            serde_json::from_str(context).map_err(|e| format!("its variables: {e}"))?;
        let mut environment = self.environment.clone();
        environment.add_function("strftime_now", move |format: &str| strftime(now, format));
        environment.add_filter("tojson", move |value: &Value, options: Kwargs| {
            to_json(value, &options, mark)
        });
        let template = environment.get_template(NAME).map_err(|e| explain(&e))?;
        let mut text = Text::default();
        let outcome = template
            .render_captured_to(value_of(context), &mut text)
            .map(drop);
        match outcome {
            _ if text.full => Err(format!("its text has more than {MAX_TEXT} bytes")),
            Ok(()) => String::from_utf8(text.bytes).map_err(|e| e.to_string()),
            Err(error) => Err(explain(&error)),
        }
    }
}

/// What a template writes, up to MAX_TEXT.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Text {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() > MAX_TEXT - self.bytes.len() {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The syntax tree and the values must not outlive `work`: their destructors
/// need the stack too.
fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .map_err(|e| format!("cannot start a thread for it: {e}"))?;
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    env.set_syntax(syntax.expect("the standard delimiters"));
    env.set_fuel(Some(FUEL));
    env.set_unknown_method_callback(method);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_formatter(|out, _, value| out.write_str(&python::str_of(value)?).map_err(Error::from));
    env.add_filter("fromjson", |text: &str| -> Outcome<Value> {
        let json: serde_json::Value =
            serde_json::from_str(text).map_err(|e| invalid(format!("fromjson: {e}")))?;
        Ok(value_of(json))
    });
    env.add_filter("string", |value: &Value| python::str_of(value));
    env.add_filter("tojson", |value: &Value, options: Kwargs| {
        to_json(value, &options, None)
    });
    env.add_function("raise_exception", |message: &Value| -> Outcome<Value> {
        Err(invalid(python::str_of(message)?))
    });
    env.add_function(PERCENT, percent);
    env.add_function(SLICEABLE, |value: Value| match value.kind() {
        ValueKind::None | ValueKind::Undefined => Value::from(""),
        _ => value,
    });
    env.add_function(CHARGED, |state: &State, value: Value| {
        charge(state, &value)?;
        Ok::<_, Error>(value)
    });
    env
}

/// Pays for an operand of a sum. A sum of lists refers to them, at no cost, and
/// may be copied later: without this a list that is doubled 40 times has 2^40
/// items. Two items cost 1, a list of unknown length as much as 131072 items.
fn charge(state: &State, operand: &Value) -> Outcome<()> {
    if !matches!(operand.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(());
    }
    let cost = operand.len().map_or(1 << 16, |items| items / 2);
    state.consume_fuel(cost as u64)
}

fn value_of(json: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => flag.into(),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into(),
            (_, Some(number)) => number.into(),
            _ => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        Json::String(text) => text.into(),
        Json::Array(items) => items.into_iter().map(value_of).collect::<Vec<_>>().into(),
        Json::Object(fields) => Value::from_pairs(
            fields
                .into_iter()
                .map(|(name, field)| (name, value_of(field))),
        ),
    }
}

fn invalid(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, text)
}

/// What went wrong and in which line.
fn explain(error: &Error) -> String {
    let text = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    match error.line() {
        Some(line) => format!("{text} (line {line})"),
        None => text,
    }
}

/// The % operator: formats strings, else the remainder with the sign of the
/// divisor.
fn percent(state: &mut State, left: &Value, right: &Value) -> Outcome<Value> {
    if let Some(text) = left.as_str() {
        if widest(text) > MAX_WIDTH {
            return Err(invalid("a width of a % format is too large"));
        }
        let mut args: Vec<Value> = match right.is_tuple() {
            true => right.try_iter()?.collect(),
            false => vec![right.clone()],
        };
        let text = texts_first(text, &mut args)?;
        return format(FormatStyle::Printf, &text, &args).map(Value::from);
    }
    let remainder = state.env().compile_expression("a % b")?;
    remainder.eval(minijinja::context! { a => left, b => right })
}

/// Turns the arguments of %s and %r into Python's text of them, and %r into %s.
/// Formats that name their arguments, %(name)s, stay as they are.
fn texts_first(format: &str, args: &mut [Value]) -> Outcome<String> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    let mut args = args.iter_mut();
    while let Some(at) = rest.find('%') {
        let flags = |c: char| "-+ #0.".contains(c) || c.is_ascii_digit();
        let spec = &rest[at + 1..];
        let conversion = spec.trim_start_matches(flags);
        let end = rest.len() - conversion.len();
        out.push_str(&rest[..end]);
        rest = conversion;
        let Some(kind) = conversion.chars().next().filter(|&c| c != '(' && c != '*') else {
            out.push_str(rest);
            return Ok(out);
        };
        if kind != '%' {
            match (kind, args.next()) {
                ('s', Some(arg)) => *arg = python::str_of(arg)?.into(),
                ('r', Some(arg)) => *arg = python::repr_of(arg)?.into(),
                _ => {}
            }
        }
        out.push(if kind == 'r' { 's' } else { kind });
        rest = &rest[kind.len_utf8()..];
    }
    if args.next().is_some_and(|arg| arg.kind() != ValueKind::Map) {
        return Err(invalid(
            "not all arguments converted during string formatting",
        ));
    }
    out.push_str(rest);
    Ok(out)
}

/// The largest number in a format string.
fn widest(format: &str) -> usize {
    format
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| digits.parse().unwrap_or(usize::MAX))
        .max()
        .unwrap_or(0)
}

fn to_json(value: &Value, options: &Kwargs, verbatim: Option<char>) -> Outcome<Value> {
    let separators: Option<Vec<String>> = options.get("separators")?;
    let indent: Option<usize> = options.get("indent")?;
    let dumps = Dumps {
        ensure_ascii: options
            .get::<Option<bool>>("ensure_ascii")?
            .unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent: indent.map(|n| n.min(MAX_WIDTH)),
        item_separator: match &separators {
            Some(pair) => pair.first().map_or("", String::as_str),
            None if indent.is_some() => ",",
            None => ", ",
        },
        key_separator: match &separators {
            Some(pair) => pair.get(1).map_or("", String::as_str),
            None => ": ",
        },
        verbatim,
    };
    options.assert_all_used()?;
    let mut out = String::new();
    dumps.write(&mut out, value, 0)?;
    Ok(Value::from(out))
}

/// Python methods that pycompat lacks.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Outcome<Value> {
    let text = |i: usize| args.get(i).and_then(Value::as_str);
    match (value.as_str(), name, text(0)) {
        (Some(whole), "removeprefix", Some(part)) => {
            Ok(whole.strip_prefix(part).unwrap_or(whole).into())
        }
        (Some(whole), "removesuffix", Some(part)) => {
            Ok(whole.strip_suffix(part).unwrap_or(whole).into())
        }
        _ => unknown_method_callback(state, value, name, args),
    }
}

/// datetime.now().strftime(format), in local time.
fn strftime(now: i64, format: &str) -> Outcome<String> {
    let format = std::ffi::CString::new(format).map_err(|e| invalid(e.to_string()))?;
    let mut buffer = vec![0u8; 1024];
    // SAFETY: both calls get valid pointers and write at most buffer.len() bytes.
    let size = unsafe {
        let mut broken_down: libc::tm = std::mem::zeroed();
        let now = now as libc::time_t;
        if libc::localtime_r(&now, &mut broken_down).is_null() {
            return Err(invalid("strftime_now: the time is out of range"));
        }
        let out = buffer.as_mut_ptr().cast();
        libc::strftime(out, buffer.len(), format.as_ptr(), &broken_down)
    };
    buffer.truncate(size);
    String::from_utf8(buffer).map_err(|e| invalid(e.to_string()))
}
