//! The library `cjson` of scripts: `encode`, `decode`, `null`.
//!
//! An empty table is an object. A table whose keys are 1 to n is an array.

use mlua::{Error, LightUserData, Lua, Result, Table, Value};
use serde_json::{Map, Number, Value as Json};

/// The deepest nesting.
const DEPTH_MAX: usize = 128;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let cjson = lua.create_table()?;
    cjson.set("null", null())?;
    let encode = |lua: &Lua, value: Value| {
        let text = serde_json::to_vec(&to_json(value, 0)?).map_err(Error::external)?;
        lua.create_string(text)
    };
    cjson.set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: mlua::LuaString| {
        let parsed = serde_json::from_slice(&text.as_bytes());
        to_lua(lua, parsed.map_err(|error| Error::runtime(format!("Expected JSON: {error}")))?)
    };
    cjson.set("decode", lua.create_function(decode)?)?;
    Ok(cjson)
}

/// What stands for null, which a table cannot hold as nil.
fn null() -> LightUserData {
    LightUserData(std::ptr::null_mut())
}

fn to_json(value: Value, depth: usize) -> Result<Json> {
    if depth > DEPTH_MAX {
        return Err(Error::runtime("Cannot serialise, excessive depth"));
    }
    let text = |text: mlua::LuaString| String::from_utf8_lossy(&text.as_bytes()).into_owned();
    Ok(match value {
        Value::Nil => Json::Null,
        Value::LightUserData(data) if data == null() => Json::Null,
        Value::Boolean(truth) => Json::Bool(truth),
        Value::Integer(number) => Json::from(number),
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => Json::from(number as i64),
        Value::Number(number) => {
            let number = Number::from_f64(number);
            Json::Number(number.ok_or_else(|| Error::runtime("Cannot serialise number: must not be NaN or Inf"))?)
        }
        Value::String(string) => Json::String(text(string)),
        Value::Table(table) => {
            let length = table.raw_len();
            let is_array = length > 0 && table.pairs::<Value, Value>().count() == length;
            if is_array {
                let elements = (1..=length).map(|index| to_json(table.raw_get(index)?, depth + 1));
                return Ok(Json::Array(elements.collect::<Result<_>>()?));
            }
            let mut object = Map::new();
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                let key = match key {
                    Value::String(key) => text(key),
                    Value::Integer(key) => key.to_string(),
                    Value::Number(key) => key.to_string(),
                    _ => return Err(Error::runtime("Cannot serialise table: table key must be a number or string")),
                };
                object.insert(key, to_json(value, depth + 1)?);
            }
            Json::Object(object)
        }
        other => return Err(Error::runtime(format!("Cannot serialise {}: type not supported", other.type_name()))),
    })
}

fn to_lua(lua: &Lua, json: Json) -> Result<Value> {
    Ok(match json {
        Json::Null => Value::LightUserData(null()),
        Json::Bool(truth) => Value::Boolean(truth),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(elements) => {
            let table = lua.create_table_with_capacity(elements.len(), 0)?;
            for element in elements {
                table.raw_push(to_lua(lua, element)?)?;
            }
            Value::Table(table)
        }
        Json::Object(object) => {
            let table = lua.create_table()?;
            for (key, value) in object {
                table.raw_set(key, to_lua(lua, value)?)?;
            }
            Value::Table(table)
        }
    })
}
