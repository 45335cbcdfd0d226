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

use self::grammar::Segment;
use self::tree::Tree;
use crate::params::{self, ParamError, ParamKind, ParamSpec, Presence, Source, Value, Values};
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

    /// Coerces the parameters of a route that was found, in the order they were declared. Nothing is allocated
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
    ) -> Result<Values, ParamError> {
        let Some(route) = self.routes.get(id.index()).filter(|route| !route.params.is_empty()) else {
            return Ok(Values::new());
        };
        let mut coerced = vec![Value::Absent; route.params.len()];
        for &index in &route.order {
            let param = &route.params[index as usize];
            coerced[index as usize] = match param.spec.source {
                Source::Path => path_value(&param.spec, values.get(param.placeholder).unwrap_or_default())?,
                Source::Query => query_value(&param.spec, query.unwrap_or_default())?,
            };
        }
        Ok(coerced)
    }

    /// How many routes there are; their ids count up from 0 in the order they were added.
    pub fn route_count(&self) -> usize {
        self.routes.len()
    }
}

fn path_value(spec: &ParamSpec, raw: &str) -> Result<Value, ParamError> {
    let text = query::decode_path(raw);
    params::coerce(&spec.kind, text)
        .ok_or_else(|| ParamError::bad_text(spec, query::decode_path(raw).into_owned()))
}

fn query_value(spec: &ParamSpec, query: &str) -> Result<Value, ParamError> {
    let coerce = |raw: &str| {
        params::coerce(&spec.kind, query::decode(raw))
            .ok_or_else(|| ParamError::bad_text(spec, query::decode(raw).into_owned()))
    };
    let mut occurrences = query::raw_values(query, &spec.name);
    let Some(first) = occurrences.next() else {
        return match spec.presence {
            Presence::Required => Err(ParamError::missing(spec)),
            Presence::Optional | Presence::Default => Ok(Value::Absent),
        };
    };
    if !spec.is_list {
        return coerce(first);
    }
    let list = std::iter::once(first).chain(occurrences).map(coerce).collect::<Result<Vec<_>, _>>()?;
    Ok(Value::List(list))
}
