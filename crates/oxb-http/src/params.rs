//! Typed parameters: what a route declares, and texts of a request coerced to owned values.
//!
//! Invariant (6 of ARCHITECTURE.md): a value that was coerced here is in a form that Python's own constructors
//! accept; whatever they would refuse is refused here.

mod error;
mod limits;
mod number;
mod temporal;
mod uuid;

use std::borrow::Cow;

pub use self::error::ParamError;
pub use self::limits::{Bound, Limits, Pattern};

/// One declared parameter of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamSpec {
    /// The name on the wire.
    pub name: String,
    /// Where it is read.
    pub source: Source,
    /// What its text must be.
    pub kind: ParamKind,
    /// What its absence means.
    pub presence: Presence,
    /// Every occurrence is taken, not only the first.
    pub is_list: bool,
    /// What it must be beyond its kind; of a list, each item.
    pub limits: Limits,
}

/// Where a parameter is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A placeholder of the route's path.
    Path,
    /// The query string.
    Query,
    /// A header field.
    Header,
    /// A pair of the `Cookie` field.
    Cookie,
}

impl Source {
    /// Its name in an error: `path`, `query`, `header` or `cookie`.
    pub fn name(self) -> &'static str {
        match self {
            Source::Path => "path",
            Source::Query => "query",
            Source::Header => "header",
            Source::Cookie => "cookie",
        }
    }
}

/// What the absence of a parameter means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// An error of type `missing`.
    Required,
    /// `None`: [`Value::Absent`].
    Optional,
    /// The default, which the caller keeps: [`Value::Absent`].
    Default,
}

/// What the text of a parameter must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// Anything.
    Str,
    /// Decimal digits with an optional sign, 64 bits.
    Int,
    /// Decimal or exponent form, finite.
    Float,
    /// `true True 1 yes on`, `false False 0 no off`.
    Bool,
    /// 32 hex digits, hyphenated, braced or `urn:uuid:`.
    Uuid,
    /// An ISO 8601 date: calendar, ordinal or week.
    Date,
    /// An ISO 8601 date and time, with or without an offset.
    DateTime,
    /// Decimal or exponent form, kept to the digit.
    Decimal,
    /// One of a list of values.
    Choice(Choices),
}

/// The values a parameter may have, in the order of declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Which of the two error types a text that is none of them gets.
    pub error_type: ChoiceError,
    /// The values; a text is compared with each in turn.
    pub items: Vec<ChoiceItem>,
}

/// The error type of [`Choices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceError {
    /// `enum`
    Enum,
    /// `literal_error`
    Literal,
}

/// One value of [`Choices`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceItem {
    /// Its text.
    Str(String),
    /// A number, written as [`ParamKind::Int`] accepts it.
    Int(i64),
}

/// A coerced parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not given: `None` or the default.
    Absent,
    /// A text, decoded.
    Str(String),
    /// A whole number.
    Int(i64),
    /// A finite number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// The 128 bits of a UUID, first digit highest.
    Uuid(u128),
    /// A date that exists, of the years 1 to 9999.
    Date {
        /// 1 to 9999
        year: u16,
        /// 1 to 12
        month: u8,
        /// 1 to 31
        day: u8,
    },
    /// A date that exists and a time of day.
    DateTime {
        /// 1 to 9999
        year: u16,
        /// 1 to 12
        month: u8,
        /// 1 to 31
        day: u8,
        /// 0 to 23
        hour: u8,
        /// 0 to 59
        minute: u8,
        /// 0 to 59
        second: u8,
        /// 0 to 999999; further digits were cut off.
        microsecond: u32,
        /// East of UTC, less than a day either way; `None` without an offset.
        offset_seconds: Option<i32>,
    },
    /// A number kept to the digit, in a form that `decimal.Decimal` takes.
    Decimal(String),
    /// The index of the value in [`Choices::items`].
    Choice(u16),
    /// Every occurrence, in order.
    List(Vec<Value>),
}

/// The values of a route's parameters in the order they were declared; empty, and not allocated, without any.
pub type Values = Vec<Value>;

impl ParamSpec {
    /// Coerces one decoded text and checks it against the limits.
    pub(crate) fn value(&self, text: &str) -> Result<Value, ParamError> {
        let value = coerce(&self.kind, Cow::Borrowed(text))
            .ok_or_else(|| ParamError::bad_text(self, text.to_owned()))?;
        self.limits.check(self, &value, text)?;
        Ok(value)
    }

    /// Coerces what there is of it, by its presence: the first text, or each one of a list.
    pub(crate) fn values<'a>(
        &self,
        mut texts: impl Iterator<Item = Cow<'a, str>>,
    ) -> Result<Value, ParamError> {
        let Some(first) = texts.next() else {
            return match self.presence {
                Presence::Required => Err(ParamError::missing(self)),
                Presence::Optional | Presence::Default => Ok(Value::Absent),
            };
        };
        if !self.is_list {
            return self.value(&first);
        }
        let all = std::iter::once(first).chain(texts).map(|text| self.value(&text));
        all.collect::<Result<Vec<_>, _>>().map(Value::List)
    }
}

/// Coerces one decoded text; `None` when it is not of that kind.
///
/// ```
/// use oxb_http::params::{ParamKind, Value, coerce};
///
/// assert_eq!(coerce(&ParamKind::Int, "-7".into()), Some(Value::Int(-7)));
/// assert_eq!(coerce(&ParamKind::Int, "7.0".into()), None);
/// assert_eq!(coerce(&ParamKind::Bool, "yes".into()), Some(Value::Bool(true)));
/// ```
pub fn coerce(kind: &ParamKind, text: Cow<'_, str>) -> Option<Value> {
    match kind {
        ParamKind::Str => Some(Value::Str(text.into_owned())),
        ParamKind::Int => number::int(&text).map(Value::Int),
        ParamKind::Float => number::float(&text).map(Value::Float),
        ParamKind::Bool => boolean(&text).map(Value::Bool),
        ParamKind::Uuid => uuid::uuid(&text).map(Value::Uuid),
        ParamKind::Date => temporal::date(text.as_bytes()),
        ParamKind::DateTime => temporal::datetime(text.as_bytes()),
        ParamKind::Decimal => number::is_decimal(&text).then(|| Value::Decimal(text.into_owned())),
        ParamKind::Choice(choices) => choices.find(&text).map(Value::Choice),
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "1" | "yes" | "on" => Some(true),
        "false" | "False" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

impl Choices {
    fn find(&self, text: &str) -> Option<u16> {
        let is_text_of = |item: &ChoiceItem| match item {
            ChoiceItem::Str(value) => value == text,
            ChoiceItem::Int(value) => number::int(text) == Some(*value),
        };
        self.items.iter().position(is_text_of).and_then(|index| u16::try_from(index).ok())
    }
}
