//! Why the parameters of a request were refused: the 422 problem and its one `errors` entry.
//!
//! Invariant: the body is valid JSON whatever the text was.

use bytes::Bytes;

use super::{ChoiceError, ChoiceItem, Choices, ParamKind, ParamSpec, Source};
use crate::problem::{Problem, push_json_string};

/// The first parameter of a request that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} parameter {name}: {message}", source_name.name())]
pub struct ParamError {
    source_name: Source,
    name: String,
    /// The member `type`.
    kind: &'static str,
    message: String,
    /// The text that was refused; `None` when there was none.
    input: Option<String>,
}

impl ParamError {
    #[cold]
    pub(crate) fn missing(spec: &ParamSpec) -> Self {
        ParamError {
            source_name: spec.source,
            name: spec.name.clone(),
            kind: "missing",
            message: "Field required".to_owned(),
            input: None,
        }
    }

    #[cold]
    pub(crate) fn bad_text(spec: &ParamSpec, input: String) -> Self {
        let (kind, message) = match &spec.kind {
            ParamKind::Choice(choices) => (choices.error_type.name(), should_be_one_of(choices)),
            kind => {
                let parsing = match spec.source {
                    Source::Path => "path_param_parsing",
                    Source::Query => "query_param_parsing",
                    Source::Header => "header_param_parsing",
                    Source::Cookie => "cookie_param_parsing",
                };
                (parsing, format!("Input should be a valid {}", label(kind)))
            }
        };
        ParamError { source_name: spec.source, name: spec.name.clone(), kind, message, input: Some(input) }
    }

    #[cold]
    pub(crate) fn beyond(spec: &ParamSpec, kind: &'static str, message: String, input: &str) -> Self {
        let (source_name, name) = (spec.source, spec.name.clone());
        ParamError { source_name, name, kind, message, input: Some(input.to_owned()) }
    }

    /// The entry of `errors`, as JSON.
    pub fn entry(&self) -> String {
        let mut json = Vec::with_capacity(128);
        json.extend_from_slice(b"{\"type\":");
        push_json_string(&mut json, self.kind);
        json.extend_from_slice(b",\"loc\":[");
        push_json_string(&mut json, self.source_name.name());
        json.push(b',');
        push_json_string(&mut json, &self.name);
        json.extend_from_slice(b"],\"msg\":");
        push_json_string(&mut json, &self.message);
        if let Some(input) = &self.input {
            json.extend_from_slice(b",\"input\":");
            push_json_string(&mut json, input);
        }
        json.push(b'}');
        String::from_utf8(json).expect("made of strings")
    }

    /// The body of the 422 this is answered with.
    pub fn problem(&self) -> Bytes {
        let errors = format!("[{}]", self.entry());
        Problem { extensions: &[("errors", &errors)], ..Problem::new(422) }.to_bytes()
    }
}

impl ChoiceError {
    fn name(self) -> &'static str {
        match self {
            ChoiceError::Enum => "enum",
            ChoiceError::Literal => "literal_error",
        }
    }
}

fn label(kind: &ParamKind) -> &'static str {
    match kind {
        // A text and a choice have no label: every text is a text, and a choice lists its values.
        ParamKind::Str | ParamKind::Choice(_) => "string",
        ParamKind::Int => "integer",
        ParamKind::Float => "number",
        ParamKind::Bool => "boolean",
        ParamKind::Uuid => "UUID",
        ParamKind::Date => "date in YYYY-MM-DD form",
        ParamKind::DateTime => "ISO 8601 datetime",
        ParamKind::Decimal => "decimal",
    }
}

/// `Input should be 'a', 'b' or 3`.
fn should_be_one_of(choices: &Choices) -> String {
    let mut message = String::from("Input should be ");
    let count = choices.items.len();
    for (index, item) in choices.items.iter().enumerate() {
        if index > 0 {
            message.push_str(if index + 1 == count { " or " } else { ", " });
        }
        match item {
            ChoiceItem::Str(text) => {
                message.push('\'');
                message.push_str(text);
                message.push('\'');
            }
            ChoiceItem::Int(number) => message.push_str(&number.to_string()),
        }
    }
    message
}
