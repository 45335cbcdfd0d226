//! Guards the price of finding a route: a literal path without parameters (budget 60 ns, coercion included), one and
//! four placeholders, a table of two hundred routes, and a path that makes the tree backtrack.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use oxb_http::params::{Limits, ParamKind, ParamSpec, Presence, Source};
use oxb_http::router::{Found, Router, RouterBuilder};

fn spec(name: &str, source: Source, kind: ParamKind) -> ParamSpec {
    ParamSpec {
        name: name.to_owned(),
        source,
        kind,
        presence: Presence::Required,
        is_list: false,
        limits: Limits::default(),
    }
}

fn table() -> Router {
    let mut builder = RouterBuilder::new();
    let mut add = |path: &str, params| {
        builder.add("GET", path, params).expect("no two paths here have the same shape");
    };
    add("/", Vec::new());
    add("/health/ready", Vec::new());
    add("/users/{id}", vec![spec("id", Source::Path, ParamKind::Int)]);
    add(
        "/search",
        vec![spec("q", Source::Query, ParamKind::Str), spec("limit", Source::Query, ParamKind::Int)],
    );
    add("/{a}/{b}/{c}/{d}/last", Vec::new());
    add("/files/{*rest}", Vec::new());
    for index in 0..100 {
        add(&format!("/section-{index}/list"), Vec::new());
        add(&format!("/section-{index}/{{id}}/detail"), Vec::new());
    }
    builder.build()
}

fn router(criterion: &mut Criterion) {
    let router = table();
    for (name, path, query) in [
        ("root", "/", None),
        ("literal", "/health/ready", None),
        ("literal of 200", "/section-77/list", None),
        ("one integer", "/users/1234567", None),
        ("two of the query", "/search", Some("q=rust&limit=10")),
        ("placeholder of 200", "/section-77/9/detail", None),
        ("four placeholders", "/1/2/3/4/last", None),
        ("backtracks to a catch-all", "/files/2/3/4/none", None),
        ("not found", "/section-77/9/none", None),
    ] {
        criterion.bench_function(&format!("router/{name}"), |bencher| {
            bencher.iter(|| match router.find(black_box("GET"), black_box(path)) {
                Found::Route { id, values, .. } => router.coerce(id, &values, query, None).ok(),
                _ => None,
            });
        });
    }
}

criterion_group!(benches, router);
criterion_main!(benches);
