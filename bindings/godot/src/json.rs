//! Between Godot's values and JSON. Unlike Godot's own JSON class this keeps whole numbers whole in both directions: a
//! response's token counts are ints, and a `5.0` that came out of JSON.parse_string goes out as `5`.

use godot::builtin::{AnyArray, AnyDictionary};
use godot::prelude::*;
use serde_json::{Map, Number, Value};

/// Deeper than any request, shallower than the stack: an Array that contains itself ends here.
const MAX_DEPTH: usize = 100;
/// Whole floats are exact up to here.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The Dictionary as JSON.
///
/// Errors: the path of the value that JSON cannot hold, and why.
pub fn from_dictionary(dictionary: &AnyDictionary) -> Result<Value, String> {
    object(dictionary, "request", 0)
}

/// Any value as JSON; `path` names it in errors.
pub fn from_variant(value: &Variant, path: &str) -> Result<Value, String> {
    convert(value, path, 0)
}

fn convert(value: &Variant, path: &str, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err(format!("{path} is nested more than {MAX_DEPTH} levels deep, or contains itself."));
    }
    Ok(match value.get_type() {
        VariantType::NIL => Value::Null,
        VariantType::BOOL => Value::Bool(value.to()),
        VariantType::INT => Value::from(value.to::<i64>()),
        VariantType::FLOAT => number(value.to(), path)?,
        VariantType::STRING | VariantType::STRING_NAME | VariantType::NODE_PATH => {
            Value::String(value.stringify().to_string())
        }
        VariantType::DICTIONARY => object(&value.to(), path, depth)?,
        VariantType::ARRAY => list(value.to::<AnyArray>().iter_shared(), path, depth)?,
        VariantType::PACKED_STRING_ARRAY => {
            list(value.to::<PackedStringArray>().as_slice().iter().map(ToGodot::to_variant), path, depth)?
        }
        VariantType::PACKED_INT32_ARRAY => {
            list(value.to::<PackedInt32Array>().as_slice().iter().map(ToGodot::to_variant), path, depth)?
        }
        VariantType::PACKED_INT64_ARRAY => {
            list(value.to::<PackedInt64Array>().as_slice().iter().map(ToGodot::to_variant), path, depth)?
        }
        VariantType::PACKED_FLOAT32_ARRAY => {
            list(value.to::<PackedFloat32Array>().as_slice().iter().map(ToGodot::to_variant), path, depth)?
        }
        VariantType::PACKED_FLOAT64_ARRAY => {
            list(value.to::<PackedFloat64Array>().as_slice().iter().map(ToGodot::to_variant), path, depth)?
        }
        other => {
            return Err(format!(
                "{path} is a {other:?}, which JSON cannot hold. Use strings, numbers, bools, null, Array and Dictionary."
            ));
        }
    })
}

fn number(value: f64, path: &str) -> Result<Value, String> {
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT {
        return Ok(Value::from(value as i64));
    }
    let number = Number::from_f64(value).ok_or_else(|| format!("{path} is {value}, which JSON cannot hold."))?;
    Ok(Value::Number(number))
}

fn list(values: impl Iterator<Item = Variant>, path: &str, depth: usize) -> Result<Value, String> {
    values
        .enumerate()
        .map(|(i, value)| convert(&value, &format!("{path}[{i}]"), depth + 1))
        .collect::<Result<Vec<_>, _>>()
        .map(Value::Array)
}

fn object(dictionary: &AnyDictionary, path: &str, depth: usize) -> Result<Value, String> {
    let mut members = Map::new();
    for (key, value) in dictionary.iter_shared() {
        if !matches!(key.get_type(), VariantType::STRING | VariantType::STRING_NAME) {
            return Err(format!("{path} has the key {key}, which is not a String."));
        }
        let key = key.stringify().to_string();
        let value = convert(&value, &format!("{path}.{key}"), depth + 1)?;
        members.insert(key, value);
    }
    Ok(Value::Object(members))
}

/// JSON as a value of Godot.
pub fn to_variant(value: &Value) -> Variant {
    match value {
        Value::Null => Variant::nil(),
        Value::Bool(flag) => flag.to_variant(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_variant(),
            None => number.as_f64().unwrap_or(f64::NAN).to_variant(),
        },
        Value::String(text) => text.to_variant(),
        Value::Array(values) => values.iter().map(to_variant).collect::<VarArray>().to_variant(),
        Value::Object(members) => members_to_dictionary(members).to_variant(),
    }
}

/// A JSON object as a Dictionary; empty for any other value.
pub fn to_dictionary(value: &Value) -> VarDictionary {
    value.as_object().map(members_to_dictionary).unwrap_or_default()
}

fn members_to_dictionary(members: &Map<String, Value>) -> VarDictionary {
    let mut dictionary = VarDictionary::new();
    for (key, value) in members {
        dictionary.set(key.as_str(), &to_variant(value));
    }
    dictionary
}
