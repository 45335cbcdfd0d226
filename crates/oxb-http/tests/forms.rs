//! Forms: both encodings, what breaks them, and one limit for both.

use bytes::Bytes;
use oxb_http::form::{Content, FormError, Part, parse};
use proptest::prelude::*;

const URLENCODED: &[u8] = b"application/x-www-form-urlencoded";
const MULTIPART: &[u8] = b"multipart/form-data; boundary=b";

fn text(name: &str, value: &str) -> Part {
    Part { name: name.into(), content: Content::Text(value.into()) }
}

fn file(name: &str, filename: &str, content_type: Option<&str>, data: &'static [u8]) -> Part {
    let content_type = content_type.map(str::to_owned);
    Part {
        name: name.into(),
        content: Content::File { filename: filename.into(), content_type, data: Bytes::from_static(data) },
    }
}

fn multipart(body: &str) -> Result<Vec<Part>, FormError> {
    parse(Some(MULTIPART), &Bytes::copy_from_slice(body.as_bytes()), 100)
}

/// Parts with these header sections and contents, as they go on the wire.
fn wire(parts: &[(&str, &str)]) -> String {
    let parts = parts.iter().map(|(head, content)| format!("--b\r\n{head}\r\n\r\n{content}\r\n"));
    parts.collect::<String>() + "--b--\r\n"
}

const NAMED: &str = "Content-Disposition: form-data; name=\"a\"";

#[test]
fn an_urlencoded_form_gives_its_pairs_in_order() {
    type Case = (&'static [u8], &'static [(&'static str, &'static str)]);
    let cases: &[Case] = &[
        (b"", &[]),
        (b"a=1", &[("a", "1")]),
        (b"a=1&&b&c=x=y&a=2", &[("a", "1"), ("b", ""), ("c", "x=y"), ("a", "2")]),
        (b"%61+b=x+%26y", &[("a b", "x &y")]),
        (b"a=%ff&b=\xff", &[("a", "\u{fffd}"), ("b", "\u{fffd}")]),
        (b"=x", &[("", "x")]),
    ];
    for (body, expected) in cases {
        let expected: Vec<Part> = expected.iter().map(|(name, value)| text(name, value)).collect();
        assert_eq!(parse(Some(URLENCODED), &Bytes::from_static(body), 100), Ok(expected), "{body:?}");
    }
}

#[test]
fn a_multipart_form_gives_texts_and_files_in_order() {
    let body = wire(&[
        (NAMED, "one"),
        (
            "content-disposition:form-data;NAME=f; filename=\"x;y.csv\"\r\nContent-Type: text/csv",
            "1,2\r\n--c",
        ),
        ("X-Other: 1\r\nContent-Disposition: form-data; name=\"q%22%0D%0A\"; filename=\"\"", ""),
        ("Content-Disposition: form-data; name=a; filename*=UTF-8''na%C3%AFve.txt", "z"),
    ]);
    let expected = vec![
        text("a", "one"),
        file("f", "x;y.csv", Some("text/csv"), b"1,2\r\n--c"),
        file("q\"\r\n", "", None, b""),
        file("a", "na\u{ef}ve.txt", None, b"z"),
    ];
    assert_eq!(multipart(&body), Ok(expected));
}

#[test]
fn what_is_around_the_parts_and_lines_that_only_look_like_a_boundary_are_no_part_of_the_form() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("--b--", &[]),
        ("a preamble\r\n--b--an epilogue\r\n--b\r\n", &[]),
        ("--bc\r\n--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--", &[("a", "1")]),
        // Padding after a boundary.
        ("--b \t\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--", &[("a", "1")]),
        // A line that begins like the boundary, and one in the middle of a line.
        (
            "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--bc\r\n2--b\r\n\r\n--b--",
            &[("a", "1\r\n--bc\r\n2--b\r\n")],
        ),
        // A part without content, with one line break and with two.
        ("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n--b--", &[("a", "")]),
        ("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--b--", &[("a", "")]),
    ];
    for (body, expected) in cases {
        let expected: Vec<Part> = expected.iter().map(|(name, value)| text(name, value)).collect();
        assert_eq!(multipart(body), Ok(expected), "{body:?}");
    }
}

#[test]
fn the_content_type_says_which_form_it_is() {
    let (one, body) = (wire(&[(NAMED, "1")]), Bytes::from_static(b"a=1"));
    for good in ["application/x-www-form-urlencoded", "APPLICATION/x-www-form-urlencoded ; charset=utf-8"] {
        assert_eq!(parse(Some(good.as_bytes()), &body, 1), Ok(vec![text("a", "1")]), "{good}");
    }
    for good in ["Multipart/Form-Data;boundary=b", "multipart/form-data; x=y; BOUNDARY=\"b\"; z"] {
        let body = Bytes::copy_from_slice(one.as_bytes());
        assert_eq!(parse(Some(good.as_bytes()), &body, 1), Ok(vec![text("a", "1")]), "{good}");
    }
    for other in [None, Some(&b""[..]), Some(b"application/json"), Some(b"multipart/mixed; boundary=b")] {
        let error = parse(other, &body, 1).unwrap_err();
        assert_eq!((error, error.status()), (FormError::NotAForm, 415), "{other:?}");
    }
}

#[test]
fn a_body_that_breaks_the_grammar_is_malformed() {
    let long_head = wire(&[(&format!("X: {}", "x".repeat(17 * 1024)), "1")]);
    let bodies = [
        "",
        "a=1",
        "--c--\r\n",
        "--b",
        "--b\n--b--",
        "--b\r\n",
        "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nno end",
        "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nno end\r\n--b",
        "--b\r\nContent-Disposition: form-data; name=a\r\n--b--",
        "--b\r\nno field\r\n\r\n1\r\n--b--",
        "--b\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Type: text/plain\r\n\r\n1\r\n--b--",
        &long_head,
    ];
    for body in bodies {
        let error = multipart(body).expect_err(body);
        assert!(matches!(error, FormError::Malformed(_)), "{body:?}: {error:?}");
        assert_eq!(error.status(), 400);
        assert!(error.to_string().starts_with("malformed form body: "), "{error}");
    }
    let long = "b".repeat(71);
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        &format!("multipart/form-data; boundary={long}"),
    ] {
        let body = Bytes::copy_from_slice(format!("--{long}--").as_bytes());
        let error = parse(Some(content_type.as_bytes()), &body, 1).expect_err(content_type);
        assert!(matches!(error, FormError::Malformed(_)), "{content_type}: {error:?}");
    }
}

#[test]
fn r14_both_encodings_have_the_same_limit_of_parts() {
    for count in [1, 2, 3, 100_000] {
        let urlencoded = Bytes::from("a=1&".repeat(count));
        let multipart = Bytes::from(wire(&vec![(NAMED, "1"); count]));
        for (content_type, body) in [(URLENCODED, &urlencoded), (MULTIPART, &multipart)] {
            let outcome = parse(Some(content_type), body, 2);
            if count <= 2 {
                assert_eq!(outcome.map(|parts| parts.len()), Ok(count));
            } else {
                let error = outcome.unwrap_err();
                assert_eq!((error.status(), error.to_string().as_str()), (413, "form has more than 2 parts"));
            }
        }
    }
}

#[test]
fn a_form_cut_at_any_byte_is_malformed_or_whole_but_for_its_epilogue() {
    let whole = wire(&[(NAMED, "one"), ("Content-Disposition: form-data; name=f; filename=g", "two")]);
    let parts = multipart(&whole).unwrap();
    for end in 0..whole.len() {
        match multipart(&whole[..end]) {
            Ok(found) => assert!(end >= whole.len() - 2 && found == parts, "cut at {end}"),
            Err(error) => assert!(matches!(error, FormError::Malformed(_)), "cut at {end}: {error:?}"),
        }
    }
}

#[test]
fn the_data_of_a_file_is_a_slice_of_the_body() {
    let body = Bytes::from(wire(&[("Content-Disposition: form-data; name=f; filename=g", "data")]));
    let parts = parse(Some(MULTIPART), &body, 1).unwrap();
    let Content::File { data, .. } = &parts[0].content else { panic!("{parts:?}") };
    assert!(body.as_ptr_range().contains(&data.as_ptr()));
}

proptest! {
    #[test]
    fn whatever_is_in_its_parts_a_form_comes_back(
        parts in prop::collection::vec((any::<bool>(), "[^\"\\\\%\r\n]{0,8}", prop::collection::vec(any::<u8>(), 0..40)), 0..6)
    ) {
        let mut body = Vec::new();
        let mut expected = Vec::new();
        for (is_file, name, content) in parts {
            // No content holds a line of this length.
            let filename = if is_file { "; filename=\"x\"" } else { "" };
            body.extend_from_slice(b"--0123456789012345678901234567890123456789x\r\n");
            body.extend_from_slice(format!("Content-Disposition: form-data; name=\"{name}\"{filename}\r\n\r\n").as_bytes());
            body.extend_from_slice(&content);
            body.extend_from_slice(b"\r\n");
            let content = if is_file {
                Content::File { filename: "x".into(), content_type: None, data: content.into() }
            } else {
                Content::Text(String::from_utf8_lossy(&content).into_owned())
            };
            expected.push(Part { name, content });
        }
        body.extend_from_slice(b"--0123456789012345678901234567890123456789x--\r\n");
        let content_type = b"multipart/form-data; boundary=0123456789012345678901234567890123456789x";
        prop_assert_eq!(parse(Some(content_type), &body.into(), 6), Ok(expected));
    }
}
