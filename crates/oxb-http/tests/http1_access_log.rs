//! What a server tells its access log.

mod support;

use std::sync::Arc;

use oxb_http::access_log::{AccessLog, CLIENT_LEFT};
use oxb_http::options::ServerOptions;
use support::Site;

fn lines(log: &AccessLog, count: usize) -> Vec<(String, u16)> {
    let mut lines = Vec::new();
    while lines.len() < count {
        let taken = log.take(count).expect("the log is open");
        assert_eq!(taken.lost, 0);
        lines.extend(taken.records.into_iter().map(|record| {
            assert!(!record.is_failure || record.status == 500);
            (format!("{} {}", record.method, record.target), record.status)
        }));
    }
    lines
}

#[test]
fn every_request_that_is_looked_up_is_told_of_when_its_answer_ends() {
    let log = Arc::new(AccessLog::new(100));
    let site = Site::start(ServerOptions { access_log: Some(Arc::clone(&log)), ..ServerOptions::default() });
    let mut client = site.connect();
    assert_eq!(client.get("/hello").status, 200);
    assert_eq!(client.get("/nowhere?a=%41").status, 404);
    let mut leaving = site.connect();
    leaving.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    let held = site.desk.held();
    drop(leaving);
    let expected = [("GET /hello", 200), ("GET /nowhere?a=%41", 404), ("GET /hold", CLIENT_LEFT)];
    assert_eq!(lines(&log, 3), expected.map(|(line, status)| (line.to_owned(), status)));
    drop(held);
    // Nobody answered: that is a failure of whoever should have.
    client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    drop(site.desk.held());
    assert_eq!(client.answer().status, 500);
    let taken = log.take(1).expect("the log is open");
    assert_eq!(taken.records.iter().map(|record| record.is_failure).collect::<Vec<_>>(), [true]);
    drop(client);
    site.finish();
}
