//! Texts to values: what passes is in range and comes back the same from its canonical text; what fails makes a 422
//! that is valid JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxb_http::params::{
    Bound, ChoiceError, ChoiceItem, Choices, Limits, ParamKind, ParamSpec, Pattern, Presence, Source, Value,
    coerce,
};
use oxb_http::router::{PathValues, RouterBuilder};

fn kind_of(choice: u8) -> ParamKind {
    let text = |text: &str| ChoiceItem::Str(text.to_owned());
    match choice % 9 {
        0 => ParamKind::Int,
        1 => ParamKind::Float,
        2 => ParamKind::Bool,
        3 => ParamKind::Uuid,
        4 => ParamKind::Date,
        5 => ParamKind::DateTime,
        6 => ParamKind::Decimal,
        7 => ParamKind::Str,
        _ => ParamKind::Choice(Choices {
            error_type: ChoiceError::Literal,
            items: vec![text("a"), ChoiceItem::Int(-1), text("\u{e9}\"")],
        }),
    }
}

/// The text a value is written as when nothing is left to choose.
fn canonical(value: &Value) -> Option<String> {
    match value {
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(format!("{number:?}")),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Uuid(bits) => Some(format!("{bits:032x}")),
        Value::Date { year, month, day } => {
            assert!((1..=9999).contains(year) && (1..=12).contains(month) && (1..=31).contains(day));
            Some(format!("{year:04}-{month:02}-{day:02}"))
        }
        Value::DateTime { year, month, day, hour, minute, second, microsecond, offset_seconds } => {
            assert!(*microsecond < 1_000_000);
            let offset = offset_seconds.map(|seconds| {
                assert!(seconds.abs() < 86400 && seconds % 60 == 0);
                let sign = if seconds < 0 { '-' } else { '+' };
                format!("{sign}{:02}:{:02}", seconds.abs() / 3600, seconds.abs() / 60 % 60)
            });
            Some(format!(
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{microsecond:06}{}",
                offset.unwrap_or_default()
            ))
        }
        Value::Decimal(text) => {
            assert!(text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)));
            Some(text.clone())
        }
        Value::Str(text) => Some(text.clone()),
        Value::Choice(_) | Value::Absent | Value::List(_) => None,
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let kind = kind_of(choice);
    if let Some(value) = coerce(&kind, text.into())
        && let Some(plain) = canonical(&value)
    {
        assert_eq!(coerce(&kind, plain.clone().into()), Some(value), "{plain:?}");
    }
    for is_list in [false, true] {
        let spec = ParamSpec {
            name: "a".to_owned(),
            source: Source::Query,
            kind: kind.clone(),
            presence: Presence::Required,
            is_list,
            limits: Limits {
                least: Bound::new("-5.5"),
                most: Bound::new("1e3"),
                pattern: Pattern::new("^[a-z0-9]*$").ok(),
            },
        };
        let mut builder = RouterBuilder::new();
        let id = builder.add("GET", "/", vec![spec]).expect("a good route");
        match builder.build().coerce(id, &PathValues::default(), Some(text), None) {
            Ok(values) => assert_eq!(matches!(values[..], [Value::List(_)]), is_list),
            Err(error) => {
                let body: serde_json::Value =
                    serde_json::from_slice(&error.problem()).expect("a problem is JSON");
                assert_eq!(body["errors"][0]["loc"][1], "a");
            }
        }
    }
});
