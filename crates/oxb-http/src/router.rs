//! From a method and a path to a route, and from a route's declaration to its typed values.
//!
//! A path without placeholders is one lookup in a table; the others form one tree of segments per method. matchit,
//! which was planned here, refuses sets of paths that api.md allows (`/{a}/x` beside `/{*rest}`, several prefixed
//! and suffixed placeholders in one place), so the tree is our own.
//!
//! Invariant: literal before placeholder before catch-all, segment by segment with backtracking, whatever the order
//! of registration; a search visits each node at most once, so its cost is bounded by the table, not the path.

mod found;
mod grammar;
mod tree;

pub use self::found::{Found, PathValues, RouteId};
pub use self::grammar::{RouteError, placeholders, shape};

use std::borrow::Cow;

use self::grammar::Segment;
use self::tree::Tree;
use crate::head::Head;
use crate::params::{ParamError, ParamKind, ParamSpec, Presence, Source, Value, Values};
use crate::query;

/// Collects routes; mistakes are found as each is added.
///
/// ```
/// use oxb_http::router::{Found, RouterBuilder};
///
/// let mut builder = RouterBuilder::new();
/// let user = builder.add("GET", "/users/{id}", vec![])?;
/// let router = builder.build();
/// match router.find("GET", "/users/7") {
///     Found::Route { id, values, .. } => assert_eq!((id, values.get(0)), (user, Some("7"))),
///     other => panic!("{other:?}"),
/// }
/// assert!(matches!(router.find("PUT", "/users/7"), Found::MethodNotAllowed { allow } if allow == "GET"));
/// # Ok::<(), oxb_http::router::RouteError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RouterBuilder {
    methods: Vec<(String, Tree)>,
    routes: Vec<Route>,
    /// Method and shape of every route, with its path.
    shapes: Vec<(String, String, String)>,
}

#[derive(Clone, Debug)]
struct Route {
    params: Vec<Param>,
    /// Indices into `params` in the order they are tried: path parameters first.
    order: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Param {
    spec: ParamSpec,
    /// Of a path parameter: which of the path's placeholders it is.
    placeholder: usize,
}

impl RouterBuilder {
    /// A table without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route. Placeholders that no parameter declares are matched and not coerced.
    ///
    /// # Errors
    ///
    /// A path that breaks the grammar, a parameter that does not fit its placeholder, a method that is no token,
    /// or a route of the same method and shape.
    pub fn add(&mut self, method: &str, path: &str, params: Vec<ParamSpec>) -> Result<RouteId, RouteError> {
        if method.is_empty()
            || !method.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        {
            return Err(RouteError::BadMethod { method: method.to_owned() });
        }
        let segments = grammar::parse(path)?;
        let shape = grammar::shape_of(&segments);
        if let Some((_, _, other)) =
            self.shapes.iter().find(|(known, known_shape, _)| known == method && *known_shape == shape)
        {
            return Err(RouteError::Conflict {
                method: method.to_owned(),
                path: path.to_owned(),
                other: other.clone(),
            });
        }
        let names: Vec<&str> = segments.iter().filter_map(Segment::placeholder).collect();
        let ends_in_catch_all = matches!(segments.last(), Some(Segment::CatchAll { .. }));
        let params = params
            .into_iter()
            .map(|spec| bind(spec, &names, ends_in_catch_all, path))
            .collect::<Result<Vec<_>, _>>()?;
        let mut order: Vec<u32> = (0..).take(params.len()).collect();
        order.sort_by_key(|&index| params[index as usize].spec.source != Source::Path);

        let id = RouteId::new(self.routes.len());
        let index = match self.methods.iter().position(|(known, _)| known == method) {
            Some(index) => index,
            None => {
                self.methods.push((method.to_owned(), Tree::default()));
                self.methods.len() - 1
            }
        };
        self.methods[index].1.insert(path, &segments, id);
        self.shapes.push((method.to_owned(), shape, path.to_owned()));
        self.routes.push(Route { params, order });
        Ok(id)
    }

    /// The finished table.
    pub fn build(mut self) -> Router {
        // Sorted for `Allow`; a table rarely has more than seven methods, so finding one is a short walk.
        self.methods.sort_by(|(one, _), (other, _)| one.cmp(other));
        Router { methods: self.methods, routes: self.routes }
    }
}

/// Joins a parameter to its placeholder.
fn bind(spec: ParamSpec, names: &[&str], ends_in_catch_all: bool, path: &str) -> Result<Param, RouteError> {
    if spec.source != Source::Path {
        return Ok(Param { spec, placeholder: usize::MAX });
    }
    let refuse = |reason| RouteError::BadPathParam { path: path.to_owned(), name: spec.name.clone(), reason };
    let Some(placeholder) = names.iter().position(|name| *name == spec.name) else {
        return Err(refuse("the path has no such placeholder"));
    };
    if spec.is_list || spec.presence != Presence::Required {
        return Err(refuse("a path parameter is always present, and once"));
    }
    if ends_in_catch_all && placeholder + 1 == names.len() && spec.kind != ParamKind::Str {
        return Err(refuse("a catch-all is a string"));
    }
    Ok(Param { spec, placeholder })
}

/// A finished table of routes.
#[derive(Clone, Debug, Default)]
pub struct Router {
    methods: Vec<(String, Tree)>,
    routes: Vec<Route>,
}

impl Router {
    /// Looks a request up by its method and raw path, still percent-encoded and without the query.
    /// `HEAD` where only `GET` exists is that route's, and says so.
    pub fn find<'p>(&self, method: &str, path: &'p str) -> Found<'p> {
        let mut values = PathValues::default();
        if let Some(id) = self.find_in(method, path, &mut values) {
            return Found::Route { id, head_of_get: false, values };
        }
        if method == "HEAD"
            && let Some(id) = self.find_in("GET", path, &mut values)
        {
            return Found::Route { id, head_of_get: true, values };
        }
        self.explain(path)
    }

    fn find_in<'p>(&self, method: &str, path: &'p str, values: &mut PathValues<'p>) -> Option<RouteId> {
        let (_, tree) = self.methods.iter().find(|(known, _)| known == method)?;
        tree.find(path, values)
    }

    #[cold]
    fn explain<'p>(&self, path: &'p str) -> Found<'p> {
        let has_route = |tree: &Tree| tree.find(path, &mut PathValues::default()).is_some();
        let allowed: Vec<&str> = self
            .methods
            .iter()
            .filter(|(_, tree)| has_route(tree))
            .map(|(method, _)| method.as_str())
            .collect();
        if allowed.is_empty() {
            Found::NotFound
        } else {
            Found::MethodNotAllowed { allow: allowed.join(", ") }
        }
    }

    /// The methods of the whole table as an `Allow` field lists them, with those that the server answers by itself:
    /// `HEAD` beside `GET`, and `OPTIONS` of the server (RFC 9110 §9.3.7).
    pub(crate) fn allow_of_server(&self) -> String {
        let mut methods: Vec<&str> = self.methods.iter().map(|(method, _)| method.as_str()).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        methods.sort_unstable();
        methods.dedup();
        methods.join(", ")
    }

    /// Coerces the parameters of a route that was found, in the order they were declared; those of header fields and
    /// cookies are read from `head`, and are absent without one. Nothing is allocated
    /// for a route without parameters.
    ///
    /// # Errors
    ///
    /// The first parameter that fails, path ones before the others.
    pub fn coerce(
        &self,
        id: RouteId,
        values: &PathValues<'_>,
        query: Option<&str>,
        head: Option<&Head>,
    ) -> Result<Values, ParamError> {
        let Some(route) = self.routes.get(id.index()).filter(|route| !route.params.is_empty()) else {
            return Ok(Values::new());
        };
        let mut coerced = vec![Value::Absent; route.params.len()];
        for &index in &route.order {
            let param = &route.params[index as usize];
            let spec = &param.spec;
            coerced[index as usize] = match spec.source {
                Source::Path => {
                    spec.value(&query::decode_path(values.get(param.placeholder).unwrap_or_default()))?
                }
                Source::Query => {
                    let raw = query::raw_values(query.unwrap_or_default(), &spec.name);
                    spec.values(raw.map(query::decode))?
                }
                Source::Header => spec.values(field_values(head, &spec.name))?,
                Source::Cookie => spec.values(cookie_value(head, &spec.name).into_iter())?,
            };
        }
        Ok(coerced)
    }

    /// How many routes there are; their ids count up from 0 in the order they were added.
    pub fn route_count(&self) -> usize {
        self.routes.len()
    }
}

/// The values of a header field that a handler would be given (api.md 3), in order.
fn field_values<'h>(head: Option<&'h Head>, name: &str) -> impl Iterator<Item = Cow<'h, str>> {
    let fields = head.into_iter().flat_map(Head::headers);
    let named = fields.filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    named.filter_map(|value| {
        let is_text = value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        std::str::from_utf8(value).ok().filter(|_| is_text).map(Cow::Borrowed)
    })
}

/// The value of a cookie as it was sent; the last of several.
fn cookie_value<'h>(head: Option<&'h Head>, name: &str) -> Option<Cow<'h, str>> {
    field_values(head, "cookie")
        .filter_map(|value| match value {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => None,
        })
        .flat_map(|text| text.split(';').filter_map(|pair| pair.split_once('=')))
        .filter(|(known, _)| known.trim_ascii() == name)
        .last()
        .map(|(_, value)| Cow::Borrowed(value.trim_ascii()))
}
