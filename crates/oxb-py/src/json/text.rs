//! `str` to UTF-8, plain and as a JSON string (RFC 8259 section 7).
//!
//! Read from the string's own storage: `PyUnicode_AsUTF8AndSize` would leave a second copy of the
//! text in the string for as long as it lives.
//!
//! Invariant: what is written is valid UTF-8. A lone surrogate, which UTF-8 cannot carry, is the
//! `UnicodeEncodeError` that `str.encode` raises.

// pyo3 0.30 calls `PyStringData` by a new path; 0.28, the last with 3.13t, only has this one.
#![allow(deprecated)]

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyStringData};

/// Append `text` to `out` as UTF-8.
pub(crate) fn utf8(text: Borrowed<'_, '_, PyString>, out: &mut Vec<u8>) -> PyResult<()> {
    match data(&text)? {
        PyStringData::Ucs1(bytes) => {
            if bytes.is_ascii() {
                // Exactly: a body with room left over would cost `Bytes` an allocation of its own.
                if out.is_empty() {
                    out.reserve_exact(bytes.len());
                }
                out.extend_from_slice(bytes);
            } else {
                out.reserve(bytes.len() + bytes.len() / 2);
                bytes.iter().for_each(|&byte| push_char(char::from(byte), out));
            }
            Ok(())
        }
        PyStringData::Ucs2(units) => wide(text, units.iter().map(|&unit| u32::from(unit)), out, push_char),
        PyStringData::Ucs4(units) => wide(text, units.iter().copied(), out, push_char),
    }
}

/// The characters of `text` as bytes; `None` when one is beyond U+00FF.
pub(crate) fn latin1(text: &Bound<'_, PyString>) -> Option<Vec<u8>> {
    match data(text) {
        Ok(PyStringData::Ucs1(bytes)) => Some(bytes.to_vec()),
        Ok(PyStringData::Ucs2(_) | PyStringData::Ucs4(_)) | Err(_) => None,
    }
}

/// Append `text` to `out` as a JSON string.
pub(super) fn quoted(text: Borrowed<'_, '_, PyString>, out: &mut Vec<u8>) -> PyResult<()> {
    match data(&text)? {
        PyStringData::Ucs1(bytes) => {
            out.reserve(bytes.len() + 2);
            out.push(b'"');
            let mut rest = bytes;
            while let Some(index) = find_special(rest) {
                out.extend_from_slice(&rest[..index]);
                push_quoted(char::from(rest[index]), out);
                rest = &rest[index + 1..];
            }
            out.extend_from_slice(rest);
        }
        PyStringData::Ucs2(units) => {
            out.reserve(units.len() * 2 + 2);
            out.push(b'"');
            wide(text, units.iter().map(|&unit| u32::from(unit)), out, push_quoted)?;
        }
        PyStringData::Ucs4(units) => {
            out.reserve(units.len() * 4 + 2);
            out.push(b'"');
            wide(text, units.iter().copied(), out, push_quoted)?;
        }
    }
    out.push(b'"');
    Ok(())
}

fn data<'a>(text: &'a Bound<'_, PyString>) -> PyResult<PyStringData<'a>> {
    // SAFETY: the representation is read as it is (CPython's own, the only one served), and a str
    // does not change while it is alive.
    unsafe { text.data() }
}

/// Where the first byte stands that is not itself in a JSON string: a control character, a quote,
/// a backslash, or the half of Latin-1 that takes two bytes.
fn find_special(bytes: &[u8]) -> Option<usize> {
    let is_special = |byte: u8| !(0x20..0x80).contains(&byte) || byte == b'"' || byte == b'\\';
    let mut start = 0;
    // Sixteen at a time without a branch: the compiler turns this into vector code.
    for chunk in bytes.chunks_exact(16) {
        if chunk.iter().fold(false, |found, &byte| found | is_special(byte)) {
            break;
        }
        start += 16;
    }
    bytes[start..].iter().position(|&byte| is_special(byte)).map(|index| start + index)
}

fn wide(
    text: Borrowed<'_, '_, PyString>,
    units: impl Iterator<Item = u32>,
    out: &mut Vec<u8>,
    push: impl Fn(char, &mut Vec<u8>),
) -> PyResult<()> {
    for unit in units {
        match char::from_u32(unit) {
            Some(character) => push(character, out),
            // A surrogate: asked for its UTF-8, the string raises what `encode` would.
            None => return text.to_owned().encode_utf8().map(|_| ()),
        }
    }
    Ok(())
}

#[inline]
fn push_char(character: char, out: &mut Vec<u8>) {
    // By hand, since each length is then a copy of a known size: a third faster than `encode_utf8`.
    let code = u32::from(character);
    let tail = |shift: u32| 0x80 | (code >> shift) as u8 & 0x3f;
    match code {
        0..0x80 => out.push(code as u8),
        0x80..0x800 => out.extend_from_slice(&[0xc0 | (code >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => out.extend_from_slice(&[0xe0 | (code >> 12) as u8, tail(6), tail(0)]),
        _ => out.extend_from_slice(&[0xf0 | (code >> 18) as u8, tail(12), tail(6), tail(0)]),
    }
}

#[inline]
fn push_quoted(character: char, out: &mut Vec<u8>) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        '\0'..='\u{1f}' => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let code = character as usize;
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[code >> 4], HEX[code & 15]]);
        }
        _ => push_char(character, out),
    }
}
