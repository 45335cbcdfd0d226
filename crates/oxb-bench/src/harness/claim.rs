//! What a row claims of the process that answers it, held against the info route.
//!
//! **Invariant:** a claim that the answer says nothing about is not kept.

use serde_json::Value;

/// Which process, event loop and interpreter a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// What the name of the event loop's class holds; `auto`: whichever.
    pub(crate) event_loop: String,
    /// Whether it runs without the GIL, which an import may have turned on again.
    pub(crate) is_free_threaded: bool,
}

impl Claim {
    /// Whether `info` is the answer of process `id` or a child of it, on that loop and with the GIL off where claimed.
    pub(crate) fn check(&self, info: &Value, id: u32) -> Result<(), String> {
        let is_own = ["pid", "parent"].iter().any(|key| info[*key].as_u64() == Some(u64::from(id)));
        if !is_own {
            return Err(format!("not process {id} or a child of it answers: {info}"));
        }
        let class = info["loop"].as_str().unwrap_or_default();
        if !class.contains(&self.event_loop) && self.event_loop != "auto" {
            return Err(format!("the event loop is {class:?}, not one of {}", self.event_loop));
        }
        if self.is_free_threaded && info["gil"] != false {
            return Err(format!("the GIL is on, or not told, on a free-threaded interpreter: {info}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_started_process_or_its_child_on_the_named_loop_is_the_row() {
        let claim = Claim { event_loop: "uvloop".to_owned(), is_free_threaded: false };
        let cases = [
            (json!({ "pid": 7, "parent": 1, "loop": "uvloop.Loop" }), true),
            (json!({ "pid": 8, "parent": 7, "loop": "uvloop.Loop" }), true),
            (json!({ "pid": 8, "parent": 1, "loop": "uvloop.Loop" }), false),
            (json!({ "pid": 7, "parent": 1, "loop": "asyncio.unix_events._UnixSelectorEventLoop" }), false),
            (json!({ "pid": 7, "parent": 1 }), false),
            (json!({}), false),
        ];
        for (info, is_right) in cases {
            assert_eq!(claim.check(&info, 7).is_ok(), is_right, "{info}");
        }
    }

    #[test]
    fn a_free_threaded_row_is_refused_where_the_gil_came_back_or_is_not_told() {
        let claim = Claim { event_loop: "asyncio".to_owned(), is_free_threaded: true };
        let info = |gil: Value| json!({ "pid": 7, "loop": "asyncio.X", "gil": gil });
        assert!(claim.check(&info(json!(false)), 7).is_ok());
        for gil in [json!(true), Value::Null] {
            assert!(claim.check(&info(gil.clone()), 7).unwrap_err().contains("GIL"), "{gil}");
        }
        let with_gil = Claim { is_free_threaded: false, ..claim };
        assert!(with_gil.check(&info(json!(true)), 7).is_ok());
    }
}
