//! Conversion from JSON to values of expressions.

use std::sync::Arc;

use kube_cel::cel::{SerializationError, Value};

/// Converts a value to its form in expressions. Whole numbers become `int`, as in Kubernetes: the library
/// converts non-negative numbers to `uint`, and cannot add a literal number to a `uint`.
///
/// # Errors
/// CEL has no equivalent of the value.
pub fn to_value(value: impl serde::Serialize) -> Result<Value, SerializationError> {
    let mut value = kube_cel::cel::to_value(value)?;
    with_ints(&mut value);
    Ok(value)
}

fn with_ints(value: &mut Value) {
    match value {
        Value::UInt(number) => {
            if let Ok(number) = i64::try_from(*number) {
                *value = Value::Int(number);
            }
        }
        Value::List(items) => Arc::make_mut(items).iter_mut().for_each(with_ints),
        Value::Map(map) => Arc::make_mut(&mut map.map).values_mut().for_each(with_ints),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Environment, Evaluation, Type};

    #[test]
    fn numbers_of_objects_are_those_of_expressions() {
        let environment = Environment::new([("object", Type::Any)]);
        let object = std::collections::BTreeMap::from([("list", vec![3_u64, u64::MAX]), ("size", vec![2])]);
        for expression in [
            "object.list[0] + 1 == 4",
            "object.size[0] - 3 == -1",
            "object.list[0] == 3 && object.list[0] > 2 && object.list[0] in [3]",
            "object.list.map(one, one)[0] * object.size[0] == 6",
            "object.list[1] > 9223372036854775807",
        ] {
            let compiled = environment.compile_value(expression).unwrap();
            let mut budget = Budget::new(1_000_000, 1 << 20);
            let object = to_value(&object).unwrap();
            let mut evaluation = Evaluation::new(&environment, vec![("object", object)], &mut budget);
            assert_eq!(evaluation.run(&compiled), Ok(Value::Bool(true)), "{expression}");
        }
    }
}
