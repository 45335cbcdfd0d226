//! Guards the price of coercing one text of each kind.

use std::borrow::Cow;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use oxb_http::params::{ChoiceError, ChoiceItem, Choices, ParamKind, coerce};

fn params(criterion: &mut Criterion) {
    let items = ["red", "green", "blue"].map(|text| ChoiceItem::Str(text.to_owned())).to_vec();
    let color = ParamKind::Choice(Choices { error_type: ChoiceError::Enum, items });
    for (name, kind, text) in [
        ("str", ParamKind::Str, "some text"),
        ("int", ParamKind::Int, "1234567"),
        ("float", ParamKind::Float, "1234.5678"),
        ("bool", ParamKind::Bool, "false"),
        ("uuid", ParamKind::Uuid, "01234567-89ab-cdef-0123-456789abcdef"),
        ("date", ParamKind::Date, "2024-02-29"),
        ("datetime", ParamKind::DateTime, "2024-02-29T12:34:56.789+02:00"),
        ("decimal", ParamKind::Decimal, "1234.5678"),
        ("choice", color, "blue"),
    ] {
        criterion.bench_function(&format!("params/{name}"), |bencher| {
            bencher.iter(|| coerce(&kind, Cow::Borrowed(black_box(text))));
        });
    }
}

criterion_group!(benches, params);
criterion_main!(benches);
