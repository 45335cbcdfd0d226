//! A registered route, compiled from what Python declares into the router's part and the loops' part.
//!
//! Invariant 1 of ARCHITECTURE.md: the router's part ([`ParamSpec`]) holds Rust values only and goes to the I/O
//! threads; the [`Plan`] holds Python objects and stays with the loops. Both list the parameters in signature order.

use oxb_http::RouteOptions;
use oxb_http::params::{
    Bound as Limit, ChoiceError, ChoiceItem, Choices, Limits, ParamKind, ParamSpec, Pattern, Presence, Source,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::values::Converter;
use crate::worker::plan::{Argument, Call, Kind, Plan};

/// What is wrong with a pattern of a parameter; `None` when nothing is.
#[pyfunction]
fn pattern_mistake(pattern: &str) -> Option<String> {
    Pattern::new(pattern).err()
}

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pattern_mistake, module)?)?;
    module.add_class::<Route>()?;
    module.add_class::<Model>()?;
    module.add_class::<Param>()
}

/// One path, query, header or cookie parameter of a route.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Param {
    spec: ParamSpec,
    kind: String,
    choices: Option<Vec<Py<PyAny>>>,
    default: Py<PyAny>,
    keyword: Option<String>,
}

#[pymethods]
impl Param {
    /// `keyword` is the argument's name where it is keyword-only; `least` and `most` are bounds as text.
    #[new]
    #[pyo3(signature = (
        name, kind, source, presence, *, default, is_list, choices, keyword, least=None, most=None, pattern=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python constructor")]
    fn new(
        py: Python<'_>,
        name: String,
        kind: String,
        source: &str,
        presence: &str,
        default: Py<PyAny>,
        is_list: bool,
        choices: Option<Vec<Py<PyAny>>>,
        keyword: Option<String>,
        least: Option<&str>,
        most: Option<&str>,
        pattern: Option<&str>,
    ) -> PyResult<Self> {
        let source = match source {
            "path" => Source::Path,
            "query" => Source::Query,
            "header" => Source::Header,
            "cookie" => Source::Cookie,
            _ => return Err(PyValueError::new_err(format!("not a source: {source}"))),
        };
        let presence = match presence {
            "required" => Presence::Required,
            "optional" => Presence::Optional,
            "default" => Presence::Default,
            _ => return Err(PyValueError::new_err(format!("not a presence: {presence}"))),
        };
        let bound = |text: &str| {
            Limit::new(text)
                .ok_or_else(|| PyValueError::new_err(format!("a bound is a finite number, not {text}")))
        };
        let limits = Limits {
            least: least.map(bound).transpose()?,
            most: most.map(bound).transpose()?,
            pattern: pattern.map(Pattern::new).transpose().map_err(PyValueError::new_err)?,
        };
        let kind_of = param_kind(py, &kind, choices.as_deref())?;
        let spec = ParamSpec { name, source, kind: kind_of, presence, is_list, limits };
        Ok(Self { spec, kind, choices, default, keyword })
    }
}

fn param_kind(py: Python<'_>, kind: &str, choices: Option<&[Py<PyAny>]>) -> PyResult<ParamKind> {
    let choose = |error_type| {
        let items = choices.unwrap_or_default().iter().map(|choice| choice_item(choice.bind(py)));
        items.collect::<PyResult<Vec<_>>>().map(|items| ParamKind::Choice(Choices { error_type, items }))
    };
    match kind {
        "str" => Ok(ParamKind::Str),
        "int" => Ok(ParamKind::Int),
        "float" => Ok(ParamKind::Float),
        "bool" => Ok(ParamKind::Bool),
        "uuid" => Ok(ParamKind::Uuid),
        "date" => Ok(ParamKind::Date),
        "datetime" => Ok(ParamKind::DateTime),
        "decimal" => Ok(ParamKind::Decimal),
        "enum" => choose(ChoiceError::Enum),
        "literal" => choose(ChoiceError::Literal),
        _ => Err(PyValueError::new_err(format!("not a kind of parameter: {kind}"))),
    }
}

/// The text or number that stands for a member of an enum or a value of a `Literal`.
fn choice_item(choice: &Bound<'_, PyAny>) -> PyResult<ChoiceItem> {
    let value = choice.getattr_opt(intern!(choice.py(), "value"))?.unwrap_or_else(|| choice.clone());
    if let Ok(text) = value.extract::<String>() {
        return Ok(ChoiceItem::Str(text));
    }
    value
        .extract::<i64>()
        .map(ChoiceItem::Int)
        .map_err(|_| PyTypeError::new_err("a choice is a str or a 64-bit int"))
}

/// The model that the JSON body of a request is made into.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Model {
    validate: Py<PyAny>,
    refuse: Py<PyAny>,
    index: Option<usize>,
    keyword: Option<String>,
}

#[pymethods]
impl Model {
    /// `validate` makes it of bytes; `refuse` says what is raised in place of what that raised. `index` is its place
    /// in the signature, `keyword` its name where it is keyword-only.
    #[new]
    #[pyo3(signature = (validate, refuse, *, index, keyword))]
    fn new(validate: Py<PyAny>, refuse: Py<PyAny>, index: Option<usize>, keyword: Option<String>) -> Self {
        Self { validate, refuse, index, keyword }
    }
}

/// One route as the engine takes it.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Route {
    method: String,
    path: String,
    handler: Py<PyAny>,
    kind: Kind,
    request_index: Option<usize>,
    request_keyword: Option<String>,
    params: Vec<Py<Param>>,
    status: u16,
    cancel_on_disconnect: bool,
    max_body: Option<u64>,
    streams_body: bool,
    name: String,
    model: Option<Py<Model>>,
}

#[pymethods]
impl Route {
    /// `request_index` is the request's place among the positional arguments, `request_keyword` its name where it
    /// is keyword-only; neither: the handler does not take it. `params` stand in signature order.
    #[new]
    #[pyo3(signature = (
        method, path, handler, *, kind, request_index, request_keyword, params, status, cancel_on_disconnect,
        max_body, streams_body, name, model=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python constructor")]
    fn new(
        method: String,
        path: String,
        handler: Py<PyAny>,
        kind: &str,
        request_index: Option<usize>,
        request_keyword: Option<String>,
        params: Vec<Py<Param>>,
        status: u16,
        cancel_on_disconnect: bool,
        max_body: Option<u64>,
        streams_body: bool,
        name: String,
        model: Option<Py<Model>>,
    ) -> PyResult<Self> {
        let kind = match kind {
            "async" => Kind::Async,
            "blocking" => Kind::Blocking,
            "inline" => Kind::Inline,
            _ => return Err(PyValueError::new_err(format!("not a kind of handler: {kind}"))),
        };
        Ok(Self {
            method,
            path,
            handler,
            kind,
            request_index,
            request_keyword,
            params,
            status,
            cancel_on_disconnect,
            max_body,
            streams_body,
            name,
            model,
        })
    }
}

impl Route {
    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The router's part.
    pub(crate) fn specs(&self) -> Vec<ParamSpec> {
        self.params.iter().map(|param| param.get().spec.clone()).collect()
    }

    pub(crate) fn options(&self) -> RouteOptions {
        RouteOptions {
            max_body: self.max_body,
            cancel_on_disconnect: self.cancel_on_disconnect,
            streams_body: self.streams_body,
            mount: None,
        }
    }

    /// The loops' part.
    pub(crate) fn plan(&self, py: Python<'_>) -> PyResult<Plan> {
        let mut positional = Vec::with_capacity(self.params.len() + 1);
        let mut named = Vec::new();
        for (value, param) in self.params.iter().enumerate() {
            let param = param.get();
            let choices =
                param.choices.as_ref().map(|all| all.iter().map(|choice| choice.clone_ref(py)).collect());
            let converter = Converter::new(py, &param.kind, choices)?;
            let argument = Argument::Value { index: value, converter, default: param.default.clone_ref(py) };
            match &param.keyword {
                None => positional.push(argument),
                Some(keyword) => named.push((keyword.as_str(), argument)),
            }
        }
        // By their places in the whole signature, so the first of them goes in first.
        let mut others = Vec::new();
        if let Some(place) = self.request_index {
            others.push((place, Argument::Request));
        }
        if let Some(model) = self.model.as_ref().map(Py::get) {
            let argument = Argument::Model {
                validate: model.validate.clone_ref(py),
                refuse: model.refuse.clone_ref(py),
            };
            match (&model.keyword, model.index) {
                (Some(keyword), _) => named.push((keyword.as_str(), argument)),
                (None, Some(place)) => others.push((place, argument)),
                (None, None) => {
                    return Err(PyValueError::new_err("a model is given by its place or by its name"));
                }
            }
        }
        others.sort_by_key(|(place, _)| *place);
        for (place, argument) in others {
            positional.insert(place.min(positional.len()), argument);
        }
        if let Some(keyword) = &self.request_keyword {
            named.push((keyword, Argument::Request));
        }
        Plan::new(
            py,
            Call { handler: self.handler.clone_ref(py), kind: self.kind, positional, named },
            self.status,
            self.cancel_on_disconnect,
            &self.name,
        )
    }
}
