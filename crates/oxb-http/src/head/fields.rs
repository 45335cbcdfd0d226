//! Where the fields of a head are.
//!
//! Invariant: fields are kept in order, each by its first byte and the length of its name; its value reaches to
//! the CRLF before the next field or before the blank line, since folded lines were refused.

/// Fields a head may have at most.
pub(super) const MAX_FIELDS: usize = 100;

/// Fields kept without an allocation. Browsers send 12 to 16.
const INLINE_FIELDS: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Field {
    pub(super) start: u32,
    pub(super) name_len: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    inline: [Field; INLINE_FIELDS],
    count: usize,
    /// Fields from the 17th on.
    spilled: Vec<Field>,
}

impl Fields {
    pub(super) fn push(&mut self, field: Field) {
        match self.inline.get_mut(self.count) {
            Some(place) => *place = field,
            None => self.spilled.push(field),
        }
        self.count += 1;
    }

    fn get(&self, index: usize) -> Option<Field> {
        if index >= self.count {
            None
        } else if index < INLINE_FIELDS {
            Some(self.inline[index])
        } else {
            self.spilled.get(index - INLINE_FIELDS).copied()
        }
    }

    fn name<'h>(&self, raw: &'h [u8], field: Field) -> &'h [u8] {
        let start = field.start as usize;
        &raw[start..start + field.name_len as usize]
    }

    fn value<'h>(&self, raw: &'h [u8], index: usize, field: Field) -> &'h [u8] {
        let start = field.start as usize + field.name_len as usize + 1;
        let end = match self.get(index + 1) {
            Some(next) => next.start as usize - 2,
            None => raw.len() - 4,
        };
        trim(&raw[start..end])
    }

    pub(super) fn find<'h>(&self, raw: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
        (0..self.count).find_map(|index| {
            let field = self.get(index)?;
            let is_same =
                field.name_len as usize == name.len() && self.name(raw, field).eq_ignore_ascii_case(name);
            is_same.then(|| self.value(raw, index, field))
        })
    }
}

/// Without the optional whitespace of RFC 9110 §5.6.3 around it.
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The fields of a head in the order they were sent, with the host its target says; made by [`Head::headers`](super::Head::headers).
#[derive(Clone, Debug)]
pub struct Headers<'h> {
    raw: &'h [u8],
    fields: &'h Fields,
    index: usize,
    /// The value of `host`, where the target says it.
    authority: Option<&'h [u8]>,
    /// No field holds it.
    is_host_owed: bool,
}

impl<'h> Headers<'h> {
    pub(super) fn new(raw: &'h [u8], fields: &'h Fields, authority: Option<&'h [u8]>) -> Self {
        let is_host_owed = authority.is_some() && fields.find(raw, b"host").is_none();
        Headers { raw, fields, index: 0, authority, is_host_owed }
    }
}

impl<'h> Iterator for Headers<'h> {
    type Item = (&'h str, &'h [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(authority) = self.authority
            && std::mem::take(&mut self.is_host_owed)
        {
            return Some(("host", authority));
        }
        let field = self.fields.get(self.index)?;
        let name = std::str::from_utf8(self.fields.name(self.raw, field))
            .expect("field names are tokens, which are ASCII");
        let value = match self.authority {
            Some(authority) if name.eq_ignore_ascii_case("host") => authority,
            _ => self.fields.value(self.raw, self.index, field),
        };
        self.index += 1;
        Some((name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.fields.count - self.index + usize::from(self.is_host_owed);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Headers<'_> {}
