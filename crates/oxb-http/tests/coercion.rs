//! Texts to values, absence, lists, and the 422 of the first that fails (api.md 2.5).

use oxb_http::params::{
    ChoiceError, ChoiceItem, Choices, Limits, ParamKind, ParamSpec, Presence, Source, Value, Values, coerce,
};
use oxb_http::query;
use oxb_http::router::{Found, Router, RouterBuilder};
use proptest::prelude::*;

fn short(value: &Value) -> String {
    match value {
        Value::Absent => "absent".to_owned(),
        Value::Str(text) | Value::Decimal(text) => format!("{text:?}"),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Bool(truth) => truth.to_string(),
        Value::Uuid(bits) => format!("{bits:032x}"),
        Value::Date { year, month, day } => format!("{year:04}-{month:02}-{day:02}"),
        Value::DateTime { year, month, day, hour, minute, second, microsecond, offset_seconds } => format!(
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{microsecond:06} {offset_seconds:?}"
        ),
        Value::Choice(index) => format!("#{index}"),
        Value::List(items) => format!("[{}]", items.iter().map(short).collect::<Vec<_>>().join(" ")),
    }
}

fn check(kind: &ParamKind, accepted: &[(&str, &str)], refused: &[&str]) {
    for (text, expected) in accepted {
        let value = coerce(kind, (*text).into()).unwrap_or_else(|| panic!("{kind:?} refused {text:?}"));
        assert_eq!(short(&value), *expected, "{kind:?} {text:?}");
    }
    for text in refused {
        assert_eq!(coerce(kind, (*text).into()), None, "{kind:?} {text:?}");
        // Stray text around an accepted one is never ignored.
        for (good, _) in accepted.iter().filter(|_| *kind != ParamKind::Str) {
            for stray in [
                format!(" {good}"),
                format!("{good} "),
                format!("{good}\n"),
                format!("{good}\0"),
                format!("{good}\u{e9}"),
            ] {
                assert_eq!(coerce(kind, stray.clone().into()), None, "{kind:?} {stray:?}");
            }
        }
    }
}

#[test]
fn a_string_is_anything() {
    check(&ParamKind::Str, &[("", "\"\""), (" a+b ", "\" a+b \""), ("\u{fffd}", "\"\u{fffd}\"")], &[]);
}

#[test]
fn an_integer_is_digits_within_64_bits() {
    check(
        &ParamKind::Int,
        &[
            ("0", "0"),
            ("-0", "0"),
            ("+7", "7"),
            ("007", "7"),
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
        ],
        &[
            "",
            "+",
            "-",
            "9223372036854775808",
            "-9223372036854775809",
            "1.0",
            "1e3",
            "0x1",
            "1_000",
            "--1",
            "\u{661}",
        ],
    );
}

#[test]
fn a_number_is_decimal_or_exponent_form_and_finite() {
    const ACCEPTED: &[(&str, &str)] = &[
        ("1", "1.0"),
        ("-1.5", "-1.5"),
        ("+.5", "0.5"),
        ("5.", "5.0"),
        ("1e3", "1000.0"),
        ("1E-2", "0.01"),
        ("1e+2", "100.0"),
    ];
    const REFUSED: &[&str] = &[
        "", ".", "+", "e5", ".e5", "1e", "1e+", "nan", "NaN", "inf", "-inf", "infinity", "1_0", "0x1",
        "1.2.3", "1,5", "1e5.0", "\u{661}",
    ];
    check(&ParamKind::Float, ACCEPTED, REFUSED);
    assert_eq!(coerce(&ParamKind::Float, "1e999".into()), None, "too large for a finite float");
    assert_eq!(coerce(&ParamKind::Float, "1e-999".into()), Some(Value::Float(0.0)));
    let kept: Vec<(&str, String)> = ACCEPTED.iter().map(|(text, _)| (*text, format!("{text:?}"))).collect();
    let kept: Vec<(&str, &str)> = kept.iter().map(|(text, shown)| (*text, shown.as_str())).collect();
    check(&ParamKind::Decimal, &kept, REFUSED);
    // decimal.Decimal refuses exponents beyond 18 digits, so they are refused here (invariant 6).
    for (exponent, passes) in
        [("999999990000000000", true), ("999999990000000001", false), ("99999999999999999999999", false)]
    {
        for sign in ["", "+", "-"] {
            let text = format!("1e{sign}{exponent}");
            assert_eq!(coerce(&ParamKind::Decimal, text.clone().into()).is_some(), passes, "{text}");
        }
    }
}

#[test]
fn a_boolean_is_one_of_ten_spellings() {
    const ACCEPTED: &[(&str, &str)] = &[
        ("true", "true"),
        ("True", "true"),
        ("1", "true"),
        ("yes", "true"),
        ("on", "true"),
        ("false", "false"),
        ("False", "false"),
        ("0", "false"),
        ("no", "false"),
        ("off", "false"),
    ];
    check(&ParamKind::Bool, ACCEPTED, &["", "TRUE", "t", "Yes", "ON", "2", "null"]);
}

#[test]
fn a_uuid_has_four_forms() {
    const BITS: &str = "0123456789abcdef0123456789abcdef";
    check(
        &ParamKind::Uuid,
        &[
            ("0123456789abcdef0123456789abcdef", BITS),
            ("0123456789ABCDEF0123456789abcdef", BITS),
            ("01234567-89ab-cdef-0123-456789abcdef", BITS),
            ("{01234567-89ab-cdef-0123-456789abcdef}", BITS),
            ("{0123456789abcdef0123456789abcdef}", BITS),
            ("urn:uuid:01234567-89ab-cdef-0123-456789abcdef", BITS),
            ("URN:UUID:0123456789abcdef0123456789abcdef", BITS),
        ],
        &[
            "",
            "0123456789abcdef0123456789abcde",
            "0123456789abcdef0123456789abcdeff",
            "0123456789abcdef0123456789abcdeg",
            "0123-45678-9ab-cdef-0123-456789abcdef",
            "0-1234567-89ab-cdef-0123-456789abcde",
            "{0123456789abcdef0123456789abcdef",
            "0123456789abcdef0123456789abcdef}",
            "{urn:uuid:0123456789abcdef0123456789abcdef}",
            "+123456789abcdef0123456789abcdef0",
            "urn:uuid:",
            "{}",
        ],
    );
}

#[test]
fn a_date_has_four_forms_and_exists() {
    check(
        &ParamKind::Date,
        &[
            ("2024-02-29", "2024-02-29"),
            ("20240229", "2024-02-29"),
            ("0001-01-01", "0001-01-01"),
            ("9999-12-31", "9999-12-31"),
            ("2024-001", "2024-01-01"),
            ("2024-366", "2024-12-31"),
            ("2023-365", "2023-12-31"),
            ("2024-W01-1", "2024-01-01"),
            ("2021-W01-1", "2021-01-04"),
            ("2020-W53-7", "2021-01-03"),
            ("2015-W53-4", "2015-12-31"),
            ("2025-W01-1", "2024-12-30"),
            ("0001-W01-1", "0001-01-01"),
            ("9999-W52-5", "9999-12-31"),
        ],
        &[
            "",
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
            "2024-04-31",
            "0000-01-01",
            "10000-01-01",
            "2024-1-1",
            "24-01-01",
            "2024/01/01",
            "2024-0101",
            "202401-01",
            "2023-366",
            "2024-000",
            "2024-367",
            "2024-W00-1",
            "2024-W53-1",
            "2024-W54-1",
            "2024-W01-0",
            "2024-W01-8",
            "2024W011",
            "2024-W01",
            "2024-w01-1",
            "9999-W52-6",
            "-2024-01-01",
            "2024-01-01T00:00",
            "+024-01-01",
            "2024-+1-01",
        ],
    );
}

#[test]
fn a_datetime_is_a_date_a_time_and_perhaps_an_offset() {
    check(
        &ParamKind::DateTime,
        &[
            ("2024-02-29T12:34", "2024-02-29 12:34:00.000000 None"),
            ("2024-02-29T12:34:56", "2024-02-29 12:34:56.000000 None"),
            ("2024-02-29T12:34:56.7", "2024-02-29 12:34:56.700000 None"),
            ("2024-02-29T12:34:56.123456", "2024-02-29 12:34:56.123456 None"),
            ("2024-02-29T12:34:56.1234569999", "2024-02-29 12:34:56.123456 None"),
            ("2024-02-29T12:34Z", "2024-02-29 12:34:00.000000 Some(0)"),
            ("2024-02-29T12:34:56Z", "2024-02-29 12:34:56.000000 Some(0)"),
            ("20240229T12:34:56.5+02:00", "2024-02-29 12:34:56.500000 Some(7200)"),
            ("2024-060T12:34-0330", "2024-02-29 12:34:00.000000 Some(-12600)"),
            ("2024-W09-4T12:34+14", "2024-02-29 12:34:00.000000 Some(50400)"),
            ("2024-02-29T00:00-23:59", "2024-02-29 00:00:00.000000 Some(-86340)"),
            ("2024-02-29T23:59:59-00:00", "2024-02-29 23:59:59.000000 Some(0)"),
        ],
        &[
            "",
            "2024-02-29",
            "2024-02-29T",
            "2024-02-29 12:34",
            "2024-02-29t12:34",
            "2024-02-30T12:34",
            "2024-02-29T24:00",
            "2024-02-29T12:60",
            "2024-02-29T12:34:60",
            "2024-02-29T12",
            "2024-02-29T1234",
            "2024-02-29T12:34:5",
            "2024-02-29T12:34.5",
            "2024-02-29T12:34:56.",
            "2024-02-29T12:34:56.Z",
            "2024-02-29T12:34:56,5",
            "2024-02-29T12:34z",
            "2024-02-29T12:34+24:00",
            "2024-02-29T12:34+00:60",
            "2024-02-29T12:34+1",
            "2024-02-29T12:34+123",
            "2024-02-29T12:34+01:00:00",
            "2024-02-29T12:34Z+01",
            "2024-02-29T12:34+0a",
            "2024-02-29T12:34:56T",
        ],
    );
}

fn choices(error_type: ChoiceError, items: &[ChoiceItem]) -> ParamKind {
    ParamKind::Choice(Choices { error_type, items: items.to_vec() })
}

fn text(value: &str) -> ChoiceItem {
    ChoiceItem::Str(value.to_owned())
}

#[test]
fn a_choice_is_the_text_of_one_of_its_values() {
    let mixed = choices(
        ChoiceError::Literal,
        &[text("a"), ChoiceItem::Int(1), text("1"), text(""), ChoiceItem::Int(-2)],
    );
    for (input, index) in
        [("a", Some(0)), ("1", Some(1)), ("+1", Some(1)), ("01", Some(1)), ("", Some(3)), ("-2", Some(4))]
    {
        assert_eq!(coerce(&mixed, input.into()), index.map(Value::Choice), "{input:?}");
    }
    for input in ["A", "b", "1.0", " a", "2"] {
        assert_eq!(coerce(&mixed, input.into()), None, "{input:?}");
    }
}

fn spec(name: &str, source: Source, kind: ParamKind, presence: Presence, is_list: bool) -> ParamSpec {
    ParamSpec { name: name.to_owned(), source, kind, presence, is_list, limits: Limits::default() }
}

fn query_spec(name: &str, kind: ParamKind, presence: Presence, is_list: bool) -> ParamSpec {
    spec(name, Source::Query, kind, presence, is_list)
}

fn route(path: &str, params: Vec<ParamSpec>) -> Router {
    let mut builder = RouterBuilder::new();
    builder.add("GET", path, params).expect("a path of these tests");
    builder.build()
}

fn ask(router: &Router, path: &str, query: Option<&str>) -> Result<Values, String> {
    let Found::Route { id, values, .. } = router.find("GET", path) else { panic!("{path} has no route") };
    router
        .coerce(id, &values, query, None)
        .map_err(|error| String::from_utf8_lossy(&error.problem()).into_owned())
}

#[test]
fn absence_and_repetition_mean_what_the_declaration_says() {
    use ParamKind::{Int, Str};
    use Presence::{Default, Optional, Required};
    const MISSING: &str = r#"{"type":"missing","loc":["query","n"],"msg":"Field required"}"#;
    let cases: &[(ParamSpec, Option<&str>, Result<&str, &str>)] = &[
        (query_spec("n", Int, Required, false), None, Err(MISSING)),
        (query_spec("n", Int, Required, false), Some(""), Err(MISSING)),
        (query_spec("n", Int, Required, false), Some("m=1&nn=2"), Err(MISSING)),
        (query_spec("n", Int, Required, false), Some("n=1&n=x"), Ok("1")),
        (query_spec("n", Int, Optional, false), None, Ok("absent")),
        (query_spec("n", Int, Default, false), Some("m=1"), Ok("absent")),
        (query_spec("n", Int, Default, false), Some("&&n=1"), Ok("1")),
        (query_spec("n", Str, Required, false), Some("n"), Ok("\"\"")),
        (query_spec("n", Str, Required, false), Some("n="), Ok("\"\"")),
        (query_spec("n", Str, Required, false), Some("n=a=b?"), Ok("\"a=b?\"")),
        (query_spec("n", Str, Required, false), Some("n=a+b%2B%C3%A9%ff%zz"), Ok("\"a b+é\u{fffd}%zz\"")),
        (query_spec("n", Str, Required, false), Some("%6E=1&n=2"), Ok("\"1\"")),
        (query_spec("n n", Str, Required, false), Some("n+n=1"), Ok("\"1\"")),
        (query_spec("n+n", Str, Optional, false), Some("n+n=1"), Ok("absent")),
        (query_spec("n", Int, Required, true), None, Err(MISSING)),
        (query_spec("n", Int, Required, true), Some("n=1&m=2&n=3&n=-1"), Ok("[1 3 -1]")),
        (query_spec("n", Int, Optional, true), Some("m=1"), Ok("absent")),
        (query_spec("n", Int, Default, true), Some("n=5"), Ok("[5]")),
    ];
    for (spec, query, expected) in cases {
        let router = route("/", vec![spec.clone()]);
        match (ask(&router, "/", *query), expected) {
            (Ok(values), Ok(expected)) => assert_eq!(short(&values[0]), *expected, "{query:?}"),
            (Err(body), Err(entry)) => assert_eq!(body, unprocessable(entry), "{query:?}"),
            (outcome, _) => panic!("{query:?}: {outcome:?}"),
        }
    }
}

fn unprocessable(entry: &str) -> String {
    format!(r#"{{"type":"about:blank","title":"Unprocessable Content","status":422,"errors":[{entry}]}}"#)
}

#[test]
fn a_text_that_is_refused_names_its_place_its_label_and_itself() {
    let kinds: &[(ParamKind, &str)] = &[
        (ParamKind::Int, "a valid integer"),
        (ParamKind::Float, "a valid number"),
        (ParamKind::Bool, "a valid boolean"),
        (ParamKind::Uuid, "a valid UUID"),
        (ParamKind::Decimal, "a valid decimal"),
        (ParamKind::Date, "a valid date in YYYY-MM-DD form"),
        (ParamKind::DateTime, "a valid ISO 8601 datetime"),
    ];
    for (kind, label) in kinds {
        let router = route("/{v}", vec![spec("v", Source::Path, kind.clone(), Presence::Required, false)]);
        let entry = format!(
            r#"{{"type":"path_param_parsing","loc":["path","v"],"msg":"Input should be {label}","input":"a+\"\\é\u0001"}}"#
        );
        assert_eq!(ask(&router, "/a+%22%5C%C3%A9%01", None), Err(unprocessable(&entry)));
        for is_list in [false, true] {
            let router = route("/", vec![query_spec("v", kind.clone(), Presence::Default, is_list)]);
            let entry = format!(
                r#"{{"type":"query_param_parsing","loc":["query","v"],"msg":"Input should be {label}","input":""}}"#
            );
            assert_eq!(ask(&router, "/", Some("v=")), Err(unprocessable(&entry)));
        }
    }
    let lists: &[(ChoiceError, &[ChoiceItem], &str)] = &[
        (ChoiceError::Enum, &[text("a")], r#""type":"enum","loc":["query","v"],"msg":"Input should be 'a'""#),
        (
            ChoiceError::Enum,
            &[ChoiceItem::Int(3), ChoiceItem::Int(-1)],
            r#""type":"enum","loc":["query","v"],"msg":"Input should be 3 or -1""#,
        ),
        (
            ChoiceError::Literal,
            &[text("a"), ChoiceItem::Int(2), text("c\"")],
            r#""type":"literal_error","loc":["query","v"],"msg":"Input should be 'a', 2 or 'c\"'""#,
        ),
    ];
    for (error_type, items, start) in lists {
        let router =
            route("/", vec![query_spec("v", choices(*error_type, items), Presence::Required, false)]);
        let entry = format!(r#"{{{start},"input":"x y"}}"#);
        assert_eq!(ask(&router, "/", Some("v=x+y")), Err(unprocessable(&entry)));
    }
}

#[test]
fn the_first_failure_is_reported_path_ones_first_then_in_order() {
    let params = vec![
        query_spec("q", ParamKind::Int, Presence::Required, false),
        spec("b", Source::Path, ParamKind::Int, Presence::Required, false),
        query_spec("r", ParamKind::Int, Presence::Required, false),
        spec("a", Source::Path, ParamKind::Int, Presence::Required, false),
    ];
    let router = route("/{a}/{b}", params);
    let failed = |path: &str, query: &str| {
        let body = ask(&router, path, Some(query)).unwrap_err();
        body.split_once("\"loc\":[").unwrap().1.split_once(']').unwrap().0.to_owned()
    };
    assert_eq!(failed("/x/x", "q=x&r=x"), r#""path","b""#);
    assert_eq!(failed("/x/1", "q=x&r=x"), r#""path","a""#);
    assert_eq!(failed("/1/1", "r=x"), r#""query","q""#);
    assert_eq!(failed("/1/1", "r=x&q=1"), r#""query","r""#);
    let values = ask(&router, "/1/2", Some("r=4&q=3")).unwrap();
    assert_eq!(values, [Value::Int(3), Value::Int(2), Value::Int(4), Value::Int(1)]);
}

#[test]
fn path_values_are_decoded_once_and_keep_their_plus() {
    let router =
        route("/f/{*rest}", vec![spec("rest", Source::Path, ParamKind::Str, Presence::Required, false)]);
    for (path, expected) in [
        ("/f/a+b%20c", "a+b c"),
        ("/f/a%2Fb/%2e%2E", "a/b/.."),
        ("/f/%252F", "%2F"),
        ("/f/%ff%C3", "\u{fffd}\u{fffd}"),
        ("/f/%", "%"),
        ("/f/%4", "%4"),
        ("/f/%4g", "%4g"),
        ("/f/%00", "\0"),
    ] {
        assert_eq!(ask(&router, path, None).unwrap(), [Value::Str(expected.to_owned())], "{path}");
    }
    assert_eq!(ask(&route("/", Vec::new()), "/", Some("n=1")).unwrap().capacity(), 0, "nothing is allocated");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The model: `form_urlencoded`, which follows the same standard and decodes everything.
    #[test]
    fn queries_decode_as_forms_do(query in "[ab=&+%2C3Aé]{0,30}", name in "[ab +é]{0,2}") {
        let all: Vec<(String, String)> =
            form_urlencoded::parse(query.as_bytes()).map(|(key, value)| (key.into_owned(), value.into_owned())).collect();
        let ours: Vec<(String, String)> = query::pairs(&query)
            .map(|(key, value)| (query::decode(key).into_owned(), query::decode(value).into_owned()))
            .collect();
        prop_assert_eq!(&ours, &all);
        let named: Vec<String> = query::values(&query, &name).map(|value| value.into_owned()).collect();
        let expected: Vec<String> = all.into_iter().filter(|(key, _)| *key == name).map(|(_, value)| value).collect();
        prop_assert_eq!(named, expected);
    }

    #[test]
    fn integers_are_those_that_fit(text in "[+-]?[0-9]{0,21}") {
        let digits = text.trim_start_matches(['+', '-']);
        let expected = if digits.is_empty() { None } else { text.parse::<i128>().ok().and_then(|wide| i64::try_from(wide).ok()) };
        prop_assert_eq!(coerce(&ParamKind::Int, text.into()), expected.map(Value::Int));
    }

    /// The model: the sequence of characters, by a grammar of one letter each.
    #[test]
    fn numbers_have_one_grammar(text in "[+-]?[0-9]{0,2}[.]?[0-9]{0,2}([eE][+-]?[0-9]{0,2})?[a.]?") {
        let mantissa = text.trim_start_matches(['+', '-']);
        let (mantissa, exponent) = match mantissa.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
            None => (mantissa, None),
        };
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let expected = is_digits(whole) && is_digits(fraction) && whole.len() + fraction.len() > 0
            && exponent.is_none_or(|exponent| !exponent.is_empty() && is_digits(exponent));
        prop_assert_eq!(coerce(&ParamKind::Float, text.clone().into()).is_some(), expected, "{}", text);
        prop_assert_eq!(coerce(&ParamKind::Decimal, text.clone().into()), expected.then_some(Value::Decimal(text)));
    }

    #[test]
    fn every_uuid_comes_back_in_every_form(bits in any::<u128>()) {
        let hex = format!("{bits:032x}");
        let hyphenated = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
        for form in [hex.clone(), hex.to_uppercase(), hyphenated.clone(), format!("{{{hyphenated}}}"), format!("urn:uuid:{hyphenated}")] {
            prop_assert_eq!(coerce(&ParamKind::Uuid, form.into()), Some(Value::Uuid(bits)));
        }
    }

    /// The model: a calendar that counts day by day.
    #[test]
    fn the_three_numeric_forms_of_a_date_agree(year in 1_u16..=9999, day_of_year in 0_u16..=367) {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut left = day_of_year;
        let month = lengths.iter().position(|len| if left <= *len { true } else { left -= len; false });
        let expected = month.filter(|_| left > 0).map(|month| (month + 1, left));
        let ordinal = coerce(&ParamKind::Date, format!("{year:04}-{day_of_year:03}").into());
        let Some((month, day)) = expected else {
            prop_assert_eq!(ordinal, None);
            return Ok(());
        };
        prop_assert!(ordinal.is_some());
        prop_assert_eq!(coerce(&ParamKind::Date, format!("{year:04}-{month:02}-{day:02}").into()), ordinal.clone());
        prop_assert_eq!(coerce(&ParamKind::Date, format!("{year:04}{month:02}{day:02}").into()), ordinal);
    }

    #[test]
    fn no_text_makes_a_coercion_panic(text in "\\PC{0,40}", digits in "[0-9TZW:.+-]{0,40}") {
        for kind in [ParamKind::Int, ParamKind::Float, ParamKind::Bool, ParamKind::Uuid, ParamKind::Date, ParamKind::DateTime, ParamKind::Decimal] {
            let _ = coerce(&kind, text.as_str().into());
            let _ = coerce(&kind, digits.as_str().into());
        }
    }
}
