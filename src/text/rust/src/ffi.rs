//! The C ABI. No panic leaves it: one becomes an error text.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use std::sync::Once;

use crate::template::Template;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::{self, Vocabulary};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct QtView {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct QtText {
    data: *mut u8,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct QtIds {
    data: *mut i32,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct QtVocabulary {
    model: QtView,
    pre: QtView,
    tokens: *const QtView,
    scores: *const f32,
    types: *const i32,
    token_count: usize,
    merges: *const QtView,
    merge_count: usize,
    bos: i32,
    eos: i32,
    unk: i32,
    add_bos: i32,
    add_eos: i32,
    add_space_prefix: i32,
}

#[repr(C)]
pub struct QtTable {
    count: usize,
    offsets: *const u32,
    bytes: *const u8,
    special: *const u8,
    strip: i32,
    prefix: *const i32,
    prefix_size: usize,
    suffix: *const i32,
    suffix_size: usize,
}

impl QtView {
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        items(self.data, self.size)
    }

    unsafe fn text<'a>(self) -> Outcome<&'a str> {
        std::str::from_utf8(self.bytes())
            .map_err(|e| format!("not UTF-8 at byte {}", e.valid_up_to()).into())
    }
}

impl From<String> for QtText {
    fn from(text: String) -> Self {
        let mut text = ManuallyDrop::new(text.into_bytes());
        QtText {
            data: text.as_mut_ptr(),
            size: text.len(),
            capacity: text.capacity(),
        }
    }
}

impl From<Vec<i32>> for QtIds {
    fn from(ids: Vec<i32>) -> Self {
        let mut ids = ManuallyDrop::new(ids);
        QtIds {
            data: ids.as_mut_ptr(),
            size: ids.len(),
            capacity: ids.capacity(),
        }
    }
}

/// A slice of what the caller holds, which may be null when empty.
unsafe fn items<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if data.is_null() || size == 0 {
        return &[];
    }
    slice::from_raw_parts(data, size)
}

fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("internal error: {}", text.unwrap_or_default())
}

/// Runs `work`; None, with `error` set, if it fails.
unsafe fn guard<T>(error: *mut QtText, work: impl FnOnce() -> Outcome<T>) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let reason = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(reason)) => reason.to_string(),
        Err(panic) => panic_text(panic),
    };
    error.write(one_line(&reason).into());
    None
}

fn one_line(reason: &str) -> String {
    const LONGEST: usize = 1000;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    reason.chars().map(plain).take(LONGEST).collect()
}

/// As guard, for a value that goes to `out`: 1, or 0 if it fails.
unsafe fn write<T, U: From<T>>(
    out: *mut U,
    error: *mut QtText,
    work: impl FnOnce() -> Outcome<T>,
) -> i32 {
    match guard(error, work) {
        Some(value) => {
            out.write(value.into());
            1
        }
        None => 0,
    }
}

unsafe fn boxed<T>(error: *mut QtText, work: impl FnOnce() -> Outcome<T>) -> *mut T {
    guard(error, work).map_or(std::ptr::null_mut(), |v| Box::into_raw(Box::new(v)))
}

#[no_mangle]
pub unsafe extern "C" fn qt_tokenizer_from_json(
    json: QtView,
    error: *mut QtText,
) -> *mut Tokenizer {
    boxed(error, || Tokenizer::from_json(json.bytes()))
}

#[no_mangle]
pub unsafe extern "C" fn qt_tokenizer_from_vocabulary(
    v: *const QtVocabulary,
    error: *mut QtText,
) -> *mut Tokenizer {
    boxed(error, || {
        let v = &*v;
        let texts = |name: &str, data: *const QtView, size: usize| {
            let views = items(data, size).iter().enumerate();
            views
                .map(|(i, view)| view.text().map_err(|e| format!("{name}[{i}]: {e}").into()))
                .collect::<Outcome<Vec<&str>>>()
        };
        let count = v.token_count;
        let id = |id: i32| u32::try_from(id).ok().filter(|&id| (id as usize) < count);
        let flag = |flag: i32| (flag >= 0).then_some(flag > 0);
        let per_token = |present: bool| if present { count } else { 0 };
        vocabulary::build(&Vocabulary {
            model: v.model.text()?,
            pre: v.pre.text()?,
            tokens: texts("tokenizer.ggml.tokens", v.tokens, count)?,
            scores: items(v.scores, per_token(!v.scores.is_null())),
            types: items(v.types, per_token(!v.types.is_null())),
            merges: texts("tokenizer.ggml.merges", v.merges, v.merge_count)?,
            bos: id(v.bos),
            eos: id(v.eos),
            unk: id(v.unk),
            add_bos: flag(v.add_bos),
            add_eos: flag(v.add_eos),
            add_space_prefix: flag(v.add_space_prefix),
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn qt_tokenizer_free(tokenizer: *mut Tokenizer) {
    drop(Box::from_raw(tokenizer));
}

#[no_mangle]
pub unsafe extern "C" fn qt_tokenizer_table(t: *const Tokenizer, table: *mut QtTable) {
    let t = &*t;
    table.write(QtTable {
        count: t.pieces.len(),
        offsets: t.pieces.offsets.as_ptr(),
        bytes: t.pieces.bytes.as_ptr(),
        special: t.special.as_ptr(),
        strip: t.strip as i32,
        prefix: t.prefix.as_ptr(),
        prefix_size: t.prefix.len(),
        suffix: t.suffix.as_ptr(),
        suffix_size: t.suffix.len(),
    });
}

fn signed(ids: Vec<u32>) -> Vec<i32> {
    ids.into_iter().map(|id| id as i32).collect()
}

fn char_of(code: u32) -> Outcome<char> {
    char::from_u32(code).ok_or_else(|| format!("U+{code:X} is no character").into())
}

#[no_mangle]
pub unsafe extern "C" fn qt_tokenizer_encode(
    t: *const Tokenizer,
    text: QtView,
    parse_special: i32,
    ids: *mut QtIds,
    error: *mut QtText,
) -> i32 {
    write(ids, error, || {
        let text = text.text()?;
        Ok(signed(match parse_special {
            0 => (*t).encode_plain(text)?,
            _ => (*t).encode(text)?,
        }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn qt_tokenizer_mark(
    t: *const Tokenizer,
    text: QtView,
    mark: u32,
    marked: *mut QtText,
    error: *mut QtText,
) -> i32 {
    write(marked, error, || (*t).mark(text.text()?, char_of(mark)?))
}

#[no_mangle]
pub unsafe extern "C" fn qt_tokenizer_encode_marked(
    t: *const Tokenizer,
    text: QtView,
    mark: u32,
    ids: *mut QtIds,
    error: *mut QtText,
) -> i32 {
    write(ids, error, || {
        Ok(signed((*t).encode_marked(text.text()?, char_of(mark)?)?))
    })
}

#[no_mangle]
pub unsafe extern "C" fn qt_tokenizer_id(t: *const Tokenizer, token: QtView) -> i32 {
    let find = || token.text().ok().and_then(|name| (*t).hf.token_to_id(name));
    let id = catch_unwind(AssertUnwindSafe(find)).ok().flatten();
    id.map_or(-1, |id| id as i32)
}

#[no_mangle]
pub unsafe extern "C" fn qt_template_new(source: QtView, error: *mut QtText) -> *mut Template {
    boxed(error, || Ok(Template::new(source.text()?)?))
}

#[no_mangle]
pub unsafe extern "C" fn qt_template_free(template: *mut Template) {
    drop(Box::from_raw(template));
}

#[no_mangle]
pub unsafe extern "C" fn qt_template_render(
    template: *const Template,
    context: QtView,
    now: i64,
    mark: u32,
    text: *mut QtText,
    error: *mut QtText,
) -> i32 {
    write(text, error, || {
        let mark = char::from_u32(mark).filter(|&c| c != '\0');
        Ok((*template).render(context.text()?, now, mark)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn qt_text_free(text: QtText) {
    if !text.data.is_null() {
        drop(Vec::from_raw_parts(text.data, text.size, text.capacity));
    }
}

#[no_mangle]
pub unsafe extern "C" fn qt_ids_free(ids: QtIds) {
    if !ids.data.is_null() {
        drop(Vec::from_raw_parts(ids.data, ids.size, ids.capacity));
    }
}
