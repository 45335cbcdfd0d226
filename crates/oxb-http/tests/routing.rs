//! Paths to routes: the grammar, conflicts, precedence with backtracking, methods nobody wrote (api.md 2.4, 2.6).

use oxb_http::params::{Limits, ParamKind, ParamSpec, Presence, Source};
use oxb_http::router::{Found, RouteError, Router, RouterBuilder, placeholders, shape};
use proptest::prelude::*;

fn table(routes: &[(&str, &str)]) -> Router {
    let mut builder = RouterBuilder::new();
    for (method, path) in routes {
        builder.add(method, path, Vec::new()).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    }
    builder.build()
}

/// `route: value, value`, or what else was found.
fn describe(routes: &[(&str, &str)], found: &Found<'_>) -> String {
    match found {
        Found::NotFound => "404".to_owned(),
        Found::MethodNotAllowed { allow } => format!("405 {allow}"),
        Found::Route { id, head_of_get, values } => {
            let (method, path) = routes[id.index()];
            let values: Vec<&str> = values.iter().collect();
            format!("{method} {path}{} [{}]", if *head_of_get { " for HEAD" } else { "" }, values.join(" "))
        }
    }
}

#[test]
fn the_most_literal_route_wins_with_backtracking_whatever_the_order() {
    const ROUTES: &[(&str, &str)] = &[
        ("GET", "/"),
        ("GET", "/a"),
        ("GET", "/a/"),
        ("GET", "/{x}"),
        ("GET", "/a/b/c"),
        ("GET", "/a/{x}/d"),
        ("GET", "/{x}/b/e"),
        ("GET", "/{x}/{y}/f"),
        ("GET", "/a/{*rest}"),
        ("GET", "/files/{name}.json"),
        ("GET", "/files/{name}.tar.gz"),
        ("GET", "/files/{name}.gz"),
        ("GET", "/files/v{name}"),
        ("GET", "/files/v{name}.gz"),
        ("GET", "/files/{name}"),
        ("GET", "/deep/{a}/{b}/{c}/{d}/{e}/{f}"),
        ("GET", "/pre/v{*rest}"),
        ("GET", "/pre/vv{*rest}"),
        ("GET", "/pre/{*rest}"),
        ("GET", "/pre/v{x}/y"),
    ];
    const PATHS: &[(&str, &str)] = &[
        ("/", "GET / []"),
        ("/a", "GET /a []"),
        ("/a/", "GET /a/ []"),
        ("/b", "GET /{x} [b]"),
        ("/b/", "404"),
        ("", "404"),
        ("*", "404"),
        ("a", "404"),
        ("//", "404"),
        ("/a/b/c", "GET /a/b/c []"),
        ("/a/b/d", "GET /a/{x}/d [b]"),
        ("/a/b/e", "GET /a/{*rest} [b/e]"),
        ("/z/b/e", "GET /{x}/b/e [z]"),
        ("/z/b/f", "GET /{x}/{y}/f [z b]"),
        ("/a/b/f", "GET /a/{*rest} [b/f]"),
        ("/a//", "GET /a/{*rest} [/]"),
        ("/a%2Fb", "GET /{x} [a%2Fb]"),
        ("/a/../b", "GET /a/{*rest} [../b]"),
        ("/A", "GET /{x} [A]"),
        ("/files/x.json", "GET /files/{name}.json [x]"),
        ("/files/x.tar.gz", "GET /files/{name}.tar.gz [x]"),
        ("/files/x.gz", "GET /files/{name}.gz [x]"),
        ("/files/.gz", "GET /files/{name} [.gz]"),
        ("/files/.tar.gz", "GET /files/{name}.gz [.tar]"),
        ("/files/v1", "GET /files/v{name} [1]"),
        ("/files/v", "GET /files/{name} [v]"),
        ("/files/v1.gz", "GET /files/v{name}.gz [1]"),
        ("/files/v.gz", "GET /files/{name}.gz [v]"),
        ("/files/v1.tar.gz", "GET /files/{name}.tar.gz [v1]"),
        ("/files/", "404"),
        ("/deep/1/2/3/4/5/6", "GET /deep/{a}/{b}/{c}/{d}/{e}/{f} [1 2 3 4 5 6]"),
        ("/deep/1/2/3/4/5/", "404"),
        ("/pre/v1/y", "GET /pre/v{x}/y [1]"),
        ("/pre/v1/z", "GET /pre/v{*rest} [1/z]"),
        ("/pre/vv1", "GET /pre/vv{*rest} [1]"),
        ("/pre/v", "GET /pre/{*rest} [v]"),
        ("/pre/vv", "GET /pre/v{*rest} [v]"),
        ("/pre/", "404"),
    ];
    let mut reversed = ROUTES.to_vec();
    reversed.reverse();
    for routes in [ROUTES, &reversed] {
        let router = table(routes);
        for (path, expected) in PATHS {
            assert_eq!(describe(routes, &router.find("GET", path)), *expected, "{path}");
        }
    }
}

#[test]
fn a_method_nobody_wrote_is_answered_from_those_that_were() {
    const ROUTES: &[(&str, &str)] = &[
        ("PUT", "/a"),
        ("GET", "/a"),
        ("DELETE", "/{x}"),
        ("HEAD", "/own"),
        ("GET", "/own"),
        ("POST", "/only-post"),
        ("HEAD", "/{*any}"),
        ("GET", "/b/c"),
    ];
    const REQUESTS: &[(&str, &str, &str)] = &[
        ("GET", "/a", "GET /a []"),
        ("POST", "/a", "405 DELETE, GET, HEAD, PUT"),
        ("OPTIONS", "/a", "405 DELETE, GET, HEAD, PUT"),
        ("get", "/a", "405 DELETE, GET, HEAD, PUT"),
        ("HEAD", "/own", "HEAD /own []"),
        ("HEAD", "/a", "HEAD /{*any} [a]"),
        ("DELETE", "/own", "DELETE /{x} [own]"),
        ("PUT", "/x/y", "405 HEAD"),
        ("GET", "/", "404"),
    ];
    let router = table(ROUTES);
    for (method, path, expected) in REQUESTS {
        assert_eq!(describe(ROUTES, &router.find(method, path)), *expected, "{method} {path}");
    }
    const PLAIN: &[(&str, &str)] = &[("GET", "/a"), ("GET", "/b/{x}"), ("POST", "/c")];
    let router = table(PLAIN);
    assert_eq!(describe(PLAIN, &router.find("HEAD", "/a")), "GET /a for HEAD []");
    assert_eq!(describe(PLAIN, &router.find("HEAD", "/b/1")), "GET /b/{x} for HEAD [1]");
    assert_eq!(describe(PLAIN, &router.find("HEAD", "/c")), "405 POST");
    assert_eq!(describe(&[], &Router::default().find("GET", "/")), "404");
}

#[test]
fn a_path_that_breaks_the_grammar_is_refused_at_registration() {
    const PATHS: &[(&str, &str)] = &[
        ("", "must start with '/'"),
        ("a", "must start with '/'"),
        ("{x}", "must start with '/'"),
        ("/{", "stray brace"),
        ("/}", "stray brace"),
        ("/{}", "stray brace"),
        ("/{*}", "stray brace"),
        ("/{1a}", "stray brace"),
        ("/{a-b}", "stray brace"),
        ("/{a b}", "stray brace"),
        ("/{a:int}", "stray brace"),
        ("/{a.b}", "stray brace"),
        ("/{{a}}", "stray brace"),
        ("/a}{b}", "stray brace"),
        ("/{a/b}", "stray brace"),
        ("/{a}}", "stray brace"),
        ("/{a}{", "stray brace"),
        ("/{**a}", "stray brace"),
        ("/{a}{b}", "two placeholders"),
        ("/{a}-{b}", "two placeholders"),
        ("/{a}-{*b}", "two placeholders"),
        ("/{*a}/b", "must end the path"),
        ("/{*a}/", "must end the path"),
        ("/{*a}b", "must end the path"),
        ("/{a}/{a}", "twice"),
        ("/{a}/b/{*a}", "twice"),
    ];
    for (path, text) in PATHS {
        let error = RouterBuilder::new().add("GET", path, Vec::new()).unwrap_err();
        assert!(error.to_string().contains(text), "{path}: {error}");
        assert_eq!(placeholders(path), Err(error.clone()), "{path}");
        assert_eq!(shape(path), Err(error), "{path}");
    }
    assert_eq!(placeholders("/a{x}b/{é_1}/{*_}").unwrap(), ["x", "é_1", "_"]);
    for method in ["", "A B", "GET\r\n", "G\u{e9}T"] {
        assert!(matches!(
            RouterBuilder::new().add(method, "/", Vec::new()),
            Err(RouteError::BadMethod { .. })
        ));
    }
}

#[test]
fn two_routes_of_one_method_and_shape_conflict() {
    const PAIRS: &[(&str, &str, bool)] = &[
        ("/a", "/a", true),
        ("/a", "/a/", false),
        ("/{a}", "/{b}", true),
        ("/{a}", "/{*b}", true),
        ("/{a}/x", "/{*b}", false),
        ("/x{a}", "/x{b}", true),
        ("/x{a}", "/x{*b}", true),
        ("/x{a}", "/{b}x", false),
        ("/a/{x}/{*y}", "/a/{y}/{x}", true),
        ("/{a}", "/b", false),
    ];
    for (one, other, conflicts) in PAIRS {
        let mut builder = RouterBuilder::new();
        builder.add("GET", one, Vec::new()).unwrap();
        builder.add("POST", other, Vec::new()).expect("another method never conflicts");
        match builder.add("GET", other, Vec::new()) {
            Ok(_) => assert!(!conflicts, "{one} {other}"),
            Err(error) => {
                assert!(*conflicts, "{one} {other}: {error}");
                assert_eq!(error.to_string(), format!("GET {other} conflicts with GET {one}"));
            }
        }
        assert_eq!(shape(one) == shape(other), *conflicts);
    }
}

#[test]
fn a_path_parameter_must_fit_its_placeholder() {
    let spec = |name: &str, kind, presence, is_list| ParamSpec {
        name: name.to_owned(),
        source: Source::Path,
        kind,
        presence,
        is_list,
        limits: Limits::default(),
    };
    let cases = [
        ("/a", spec("x", ParamKind::Int, Presence::Required, false)),
        ("/{y}", spec("x", ParamKind::Int, Presence::Required, false)),
        ("/{x}", spec("x", ParamKind::Int, Presence::Optional, false)),
        ("/{x}", spec("x", ParamKind::Int, Presence::Default, false)),
        ("/{x}", spec("x", ParamKind::Int, Presence::Required, true)),
        ("/{*x}", spec("x", ParamKind::Int, Presence::Required, false)),
    ];
    for (path, spec) in cases {
        let refused = RouterBuilder::new().add("GET", path, vec![spec]);
        assert!(matches!(refused, Err(RouteError::BadPathParam { .. })), "{path}: {refused:?}");
    }
    let fine = spec("x", ParamKind::Str, Presence::Required, false);
    RouterBuilder::new().add("GET", "/{y}/{*x}", vec![fine]).unwrap();
}

/// How one segment of a route meets a path, best first when compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Literal,
    Placeholder { missing: usize, missing_prefix: usize },
    CatchAll { missing_prefix: usize },
}

/// The model: meets route and path segment by segment, with no tree and no table.
fn meet(route: &[String], path: &[&str]) -> Option<(Vec<Rank>, Vec<String>)> {
    let (mut ranks, mut values) = (Vec::new(), Vec::new());
    for (index, segment) in route.iter().enumerate() {
        let text = *path.get(index)?;
        match segment.split_once('{') {
            None if segment == text => ranks.push(Rank::Literal),
            None => return None,
            Some((prefix, after)) if after.starts_with('*') => {
                let rest = path[index..].join("/");
                let value = rest.strip_prefix(prefix).filter(|value| !value.is_empty())?;
                values.push(value.to_owned());
                ranks.push(Rank::CatchAll { missing_prefix: 9 - prefix.len() });
                return Some((ranks, values));
            }
            Some((prefix, after)) => {
                let suffix = after.split_once('}').expect("a placeholder ends").1;
                let inner = text.len().checked_sub(prefix.len() + suffix.len()).filter(|len| *len > 0)?;
                if !text.starts_with(prefix) || !text.ends_with(suffix) {
                    return None;
                }
                values.push(text[prefix.len()..prefix.len() + inner].to_owned());
                let missing = 18 - prefix.len() - suffix.len();
                ranks.push(Rank::Placeholder { missing, missing_prefix: 9 - prefix.len() });
            }
        }
    }
    (route.len() == path.len()).then_some((ranks, values))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_tree_finds_what_trying_every_route_finds(
        routes in prop::collection::vec(
            prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "", "{}", "{}", "a{}", "{}b", "a{}b", "{*}", "b{*}"]), 1..5),
            1..12,
        ),
        paths in prop::collection::vec(prop::collection::vec("[ab]{0,3}", 1..5), 1..12),
    ) {
        let mut builder = RouterBuilder::new();
        let mut added: Vec<Vec<String>> = Vec::new();
        for segments in &routes {
            let named: Vec<String> = segments
                .iter()
                .enumerate()
                .map(|(index, text)| text.replace("{*}", &format!("{{*p{index}}}")).replace("{}", &format!("{{p{index}}}")))
                .collect();
            if builder.add("GET", &format!("/{}", named.join("/")), Vec::new()).is_ok() {
                added.push(named);
            }
        }
        let router = builder.build();
        prop_assert_eq!(router.route_count(), added.len());
        for path in &paths {
            let segments: Vec<&str> = path.iter().map(String::as_str).collect();
            let text = format!("/{}", segments.join("/"));
            let best = added
                .iter()
                .enumerate()
                .filter_map(|(index, route)| meet(route, &segments).map(|(ranks, values)| (ranks, index, values)))
                .min();
            let found = match router.find("GET", &text) {
                Found::Route { id, values, .. } => Some((id.index(), values.iter().map(str::to_owned).collect::<Vec<_>>())),
                _ => None,
            };
            prop_assert_eq!(found, best.map(|(_, index, values)| (index, values)), "{} in {:?}", text, added);
        }
    }
}
