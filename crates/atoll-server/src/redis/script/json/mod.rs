//! The library `cjson` of scripts, on bytes: a text need be no UTF-8.
//!
//! | module | concept |
//! |---|---|
//! | `encode` | a value of Lua as JSON |
//! | `decode` | JSON as a value of Lua |
//!
//! The functions return whether they succeeded, and the outcome or the reason of the failure. The
//! settings come with each call: `prelude.lua` keeps them, and makes the library. An element of a
//! table is a step, and so are some bytes of a text. After [`STEPS`] steps a function looks at the
//! time.

mod decode;
mod encode;

use super::interpreter::MEMORY_BYTES_MAX;
use mlua::{IntoLua, LightUserData, Lua, LuaString, MultiValue, Result, Table, Value};

/// The deepest nesting that a script may ask for: Lua holds some thousand values of the server.
const DEPTH_MAX: usize = 2000;
/// Steps between two looks at the time.
const STEPS: usize = 4096;
/// Bytes that are a step.
const STEP_BYTES: usize = 64;

/// Why there is no outcome.
pub(super) enum Fault {
    /// Words for the script.
    Words(String),
    /// The script is to end.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl From<&str> for Fault {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

/// Counts steps.
pub(super) struct Steps<'l> {
    count: usize,
    look: &'l dyn Fn() -> Result<()>,
}

impl<'l> Steps<'l> {
    /// None yet. `look` looks at the time.
    pub(super) fn new(look: &'l dyn Fn() -> Result<()>) -> Self {
        Self { count: 0, look }
    }

    /// So many bytes, and an element, are done.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.count += 1 + bytes / STEP_BYTES;
        if self.count < STEPS {
            return Ok(());
        }
        self.count = 0;
        (self.look)()
    }
}

/// What stands for null, which a table cannot hold as nil.
fn null() -> LightUserData {
    LightUserData(std::ptr::null_mut())
}

fn told(lua: &Lua, outcome: std::result::Result<impl IntoLua, Fault>) -> Result<MultiValue> {
    let (is_well, value) = match outcome {
        Ok(value) => (true, value.into_lua(lua)?),
        Err(Fault::Words(words)) => (false, words.into_lua(lua)?),
        Err(Fault::Lua(error)) => return Err(error),
    };
    Ok(MultiValue::from_vec(vec![Value::Boolean(is_well), value]))
}

/// The functions. `look` looks at the time.
pub(super) fn library(lua: &Lua, look: impl Fn() -> Result<()> + Clone + 'static) -> Result<Table> {
    let cjson = lua.create_table()?;
    cjson.set("null", null())?;
    let next: mlua::Function = lua.globals().get("next")?;
    let looked = look.clone();
    type Given = (Value, usize, usize, bool, usize, usize, LuaString);
    let encode = move |lua: &Lua, (value, depth_max, digits, converts_sparse, ratio, safe, invalid): Given| {
        let invalid = match &*invalid.as_bytes() {
            b"off" => encode::Invalid::Refused,
            b"null" => encode::Invalid::Null,
            _ => encode::Invalid::Written,
        };
        let settings = encode::Settings { depth_max, digits, converts_sparse, ratio, safe, invalid };
        let encoded = encode::encode(value, settings, &next, Steps { count: 0, look: &looked });
        told(lua, encoded.and_then(|text| Ok(lua.create_string(text)?)))
    };
    cjson.set("encode", lua.create_function(encode)?)?;
    let decode = move |lua: &Lua, (text, depth_max, takes_invalid): (LuaString, usize, bool)| {
        let steps = Steps { count: 0, look: &look };
        told(lua, decode::decode(lua, &text.as_bytes(), (depth_max, takes_invalid), steps))
    };
    cjson.set("decode", lua.create_function(decode)?)?;
    Ok(cjson)
}
