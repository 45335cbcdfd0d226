//! What the generator is told of one sample: the file that `oxb-bench load --scenario` reads.
//!
//! **Invariant:** the file stays in the run's folder, so that a sample can be made again by hand.

use serde_json::{Map, Value, json};

/// The part that a scenario says; the rest is of the sample.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// Keys of the file: `mode`, and those that the mode reads.
    pub(crate) keys: Map<String, Value>,
    /// Keys of its request, but for the path.
    pub(crate) request: Map<String, Value>,
    /// Requests beside it.
    pub(crate) beside: Vec<Value>,
}

/// What differs from sample to sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'a> {
    pub(crate) path: &'a str,
    /// What the body of an answer must be, where the script does not say it.
    pub(crate) body: Option<&'a str>,
    pub(crate) connections: usize,
    pub(crate) duration: f64,
    pub(crate) warmup: f64,
    /// Requests a second of an open loop.
    pub(crate) rate: Option<f64>,
    pub(crate) seed: u64,
}

impl Script {
    /// What clients do.
    pub(crate) fn mode(&self) -> &str {
        self.keys.get("mode").and_then(Value::as_str).unwrap_or("closed")
    }

    /// The same requests in a closed loop in which nothing may be refused.
    pub(crate) fn closed(&self) -> Self {
        let mut closed = self.clone();
        closed.keys.insert("mode".to_owned(), json!("closed"));
        for key in ["refusals", "arrivals"] {
            closed.keys.remove(key);
        }
        closed
    }

    /// The file.
    pub(crate) fn file(&self, sample: Sample<'_>) -> Value {
        let mut request = self.request.clone();
        request.insert("path".to_owned(), json!(sample.path));
        if let Some(body) = sample.body {
            let expect = request.entry("expect").or_insert_with(|| json!({}));
            expect["body"] = json!(body);
        }
        let mut file = self.keys.clone();
        let requests = std::iter::once(Value::Object(request)).chain(self.beside.iter().cloned());
        file.insert("requests".to_owned(), requests.collect());
        file.insert("connections".to_owned(), json!(sample.connections));
        // A number of events or requests is an end by itself.
        let is_counted = |key: &str| file.contains_key(key);
        let (has_events, has_count) = (is_counted("events"), is_counted("count"));
        if !has_events {
            file.insert("warmup".to_owned(), json!(sample.warmup));
        }
        if !has_events && !has_count {
            file.insert("duration".to_owned(), json!(sample.duration));
        }
        if let Some(rate) = sample.rate {
            file.entry("mode").or_insert_with(|| json!("open"));
            file.insert("rate".to_owned(), json!(rate));
            file.insert("seed".to_owned(), json!(sample.seed));
        }
        Value::Object(file)
    }
}

/// A request body that a scenario asks for by its size, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// What the app answers.
    pub(crate) answer: String,
}

/// JSON of exactly so many bytes, which comes back.
pub(crate) fn json_of(bytes: usize) -> Made {
    const FRAME: usize = r#"{"data":""}"#.len();
    let body = format!(r#"{{"data":"{}"}}"#, "x".repeat(bytes.saturating_sub(FRAME)));
    Made { content_type: "application/json", answer: body.clone(), body }
}

/// A form with a text of so many bytes.
pub(crate) fn urlencoded_of(bytes: usize) -> Made {
    Made {
        content_type: "application/x-www-form-urlencoded",
        body: format!("name=Ada&text={}", "x".repeat(bytes)),
        answer: format!("Ada {bytes}"),
    }
}

/// A form with a file of so many bytes.
pub(crate) fn multipart_of(bytes: usize) -> Made {
    let part = "--oxb-bench\r\nContent-Disposition: form-data; name=";
    let body = format!(
        "{part}\"name\"\r\n\r\nAda\r\n{part}\"file\"; filename=\"x.bin\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n{}\r\n--oxb-bench--\r\n",
        "x".repeat(bytes)
    );
    Made { content_type: "multipart/form-data; boundary=oxb-bench", body, answer: format!("Ada {bytes}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample<'_> = Sample {
        path: "/a",
        body: Some("x"),
        connections: 8,
        duration: 1.0,
        warmup: 0.5,
        rate: None,
        seed: 7,
    };

    #[test]
    fn a_sample_says_how_long_unless_a_number_of_requests_or_events_does() {
        for (key, lasts, warms) in [("mode", true, true), ("count", false, true), ("events", false, false)] {
            let mut script = Script::default();
            script.keys.insert(key.to_owned(), json!(5));
            let file = script.file(SAMPLE);
            assert_eq!(
                (file.get("duration").is_some(), file.get("warmup").is_some()),
                (lasts, warms),
                "{file}"
            );
            assert_eq!(file["requests"], json!([{ "path": "/a", "expect": { "body": "x" } }]));
            assert!(file.get("seed").is_none(), "a closed loop draws nothing: {file}");
        }
    }

    #[test]
    fn json_has_exactly_the_bytes_that_are_asked_for() {
        for bytes in [11, 12, 1036, 65_548] {
            let made = json_of(bytes);
            assert_eq!((made.body.len(), &made.answer), (bytes, &made.body));
            assert!(serde_json::from_str::<Value>(&made.body).is_ok(), "{}", made.body);
        }
    }

    #[test]
    fn the_closed_loop_of_an_overload_refuses_nothing() {
        let mut script = Script::default();
        for (key, value) in
            [("mode", json!("open")), ("refusals", json!([503])), ("arrivals", json!("fixed"))]
        {
            script.keys.insert(key.to_owned(), value);
        }
        let paced = Script::default().file(Sample { rate: Some(9.0), ..SAMPLE });
        assert_eq!(
            (&paced["mode"], &paced["rate"]),
            (&json!("open"), &json!(9.0)),
            "a rate is that of an open loop"
        );
        let open = script.file(Sample { rate: Some(9.0), ..SAMPLE });
        assert_eq!((&open["rate"], &open["seed"]), (&json!(9.0), &json!(7)));
        let closed = script.closed().file(SAMPLE);
        assert_eq!(closed["mode"], "closed");
        assert!(closed.get("refusals").is_none() && closed.get("arrivals").is_none(), "{closed}");
    }
}
