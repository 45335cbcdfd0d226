//! A request of a scenario file, and what must come back.
//!
//! Invariant: what is made of it can be written as a request head; no field holds a line end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::super::upload::Material;
use super::super::{Expectation, RequestSpec};
use super::{BadScript, MAX_BODY, bad, within};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestEntry {
    #[serde(default = "get")]
    pub(super) method: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
    pub(super) body_file: Option<PathBuf>,
    pub(super) body_bytes: Option<u64>,
    #[serde(default)]
    pub(super) expect: Expect,
    pub(super) weight: Option<u32>,
    /// In the mode `slow-reader`: sent by the clients that hardly read.
    #[serde(default)]
    pub(super) slow: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    pub(super) status: Option<u16>,
    pub(super) length: Option<usize>,
    pub(super) sha256: Option<String>,
    pub(super) body: Option<String>,
    pub(super) body_bytes: Option<usize>,
}
/// A body that is sent piece by piece.
const MAX_UPLOAD: u64 = 1 << 40;

fn get() -> String {
    "GET".to_owned()
}

impl RequestEntry {
    /// The request without its body.
    pub(super) fn request(&self) -> Result<RequestSpec, BadScript> {
        let is_printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.path.starts_with('/') || !is_printable(&self.path) {
            return Err(bad(format!(
                "`path` begins with / and is written in ASCII without spaces: {:?}",
                self.path
            )));
        }
        if self.method.is_empty()
            || !self.method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        {
            return Err(bad(format!("`method` is written in capitals: {:?}", self.method)));
        }
        for (name, value) in &self.headers {
            let is_field = is_printable(name) && !name.contains(':') && !name.is_empty();
            if !is_field || value.contains(['\r', '\n', '\0']) {
                return Err(bad(format!("`headers`: {name:?}: {value:?} is no field")));
            }
        }
        Ok(RequestSpec {
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            body: Vec::new(),
        })
    }

    /// The request with its body, which is short.
    pub(super) fn whole(&self, folder: &Path) -> Result<RequestSpec, BadScript> {
        let body = match self.material(folder)? {
            Material::Bytes(bytes) => bytes.to_vec(),
            Material::Repeated(count) if count <= MAX_BODY => vec![b'x'; count as usize],
            Material::Repeated(_) => return Err(bad(format!("`body_bytes` over {MAX_BODY} is for uploads"))),
        };
        Ok(RequestSpec { body, ..self.request()? })
    }

    pub(super) fn material(&self, folder: &Path) -> Result<Material, BadScript> {
        match (&self.body, &self.body_file, self.body_bytes) {
            (None, None, None) => Ok(Material::Repeated(0)),
            (Some(text), None, None) => Ok(Material::Bytes(Arc::from(text.as_bytes()))),
            (None, Some(name), None) => {
                let path = folder.join(name);
                let failed = |error| bad(format!("`body_file` {}: {error}", path.display()));
                let length = fs::metadata(&path).map_err(failed)?.len();
                within("length of `body_file`", length, 0, MAX_BODY)?;
                Ok(Material::Bytes(fs::read(&path).map_err(failed)?.into()))
            }
            (None, None, Some(count)) => Ok(Material::Repeated(within("body_bytes", count, 0, MAX_UPLOAD)?)),
            _ => Err(bad("of `body`, `body_file` and `body_bytes` a request has one")),
        }
    }

    pub(super) fn weight(&self) -> Result<u32, BadScript> {
        within("weight", self.weight.unwrap_or(1), 1, 1_000_000)
    }

    pub(super) fn expect(&self, refusals: Vec<u16>) -> Result<Expectation, BadScript> {
        let given = &self.expect;
        let body = match (&given.body, given.body_bytes) {
            (None, None) => None,
            (Some(text), None) => Some(text.clone().into_bytes()),
            (None, Some(count)) => Some(vec![b'x'; within("body_bytes", count, 0, MAX_BODY as usize)?]),
            _ => return Err(bad("`expect` has either `body` or `body_bytes`")),
        };
        let sha256 = match &given.sha256 {
            None => None,
            Some(text) => Some(digest(text).ok_or_else(|| bad("`sha256` is 64 hexadecimal digits"))?),
        };
        let status = given.status.unwrap_or(200);
        Ok(Expectation { status, body, length: given.length, sha256, refusals })
    }
}
fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(digest)
}
