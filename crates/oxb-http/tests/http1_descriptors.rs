//! A process that runs out of file descriptors. Alone in this file, since the limit is that of the whole process.

mod support;

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use oxb_http::options::{Place, ServerOptions};
use oxb_http::server::{Running, ServeError, Server};
use oxb_http::service::Service;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use support::Desk;

/// Files that take every descriptor under a low limit; the old limit comes back at the end.
struct Shortage {
    files: Vec<File>,
    limits: Rlimit,
    _alone: MutexGuard<'static, ()>,
}

impl Shortage {
    /// Leaves `free` descriptors.
    fn leaving(free: usize) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let limits = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(200), ..limits }).expect("lower is allowed");
        let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        files.truncate(files.len() - free);
        Self { files, limits, _alone: alone }
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.limits).expect("it was so before");
    }
}

fn start(io_threads: usize) -> Result<Running, ServeError> {
    let place = Place::Tcp { host: "127.0.0.1".into(), port: 0 };
    let bound = Server::bind(place, ServerOptions { io_threads, ..ServerOptions::default() })?;
    let (router, route_options) = support::routes();
    bound.start(router, route_options, Arc::new(Desk::default()) as Arc<dyn Service>)
}

#[test]
fn a_server_that_could_not_accept_does_not_start_and_says_what_to_do() {
    // From one that is enough to listen to those that are enough to do all but accept.
    let mut refused = 0;
    for free in 1..40 {
        let shortage = Shortage::leaving(free);
        match start(2) {
            Err(error @ ServeError::Descriptors { .. }) => {
                let text = error.to_string();
                assert!(text.contains(" 200 ") && text.contains("ulimit -n"), "{text}");
                refused += 1;
            }
            Err(error) => panic!("{free}: {error}"),
            Ok(running) => {
                // Where it starts, it answers.
                let oxb_http::listener::Address::Tcp(address) = *running.address() else { panic!("a port") };
                let mut client = support::Client::new(support::connect(address));
                assert_eq!(client.get("/hello").status, 200, "{free}");
            }
        }
        drop(shortage);
    }
    assert!((8..39).contains(&refused), "{refused}");
}

#[test]
fn a_connection_that_cannot_be_accepted_waits_and_costs_no_time() {
    let mut shortage = Shortage::leaving(60);
    let running = start(1).expect("that is enough");
    let oxb_http::listener::Address::Tcp(address) = *running.address() else { panic!("it has a port") };
    // All but the one for the client's own socket.
    shortage.files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    shortage.files.pop();
    let mut client = support::Client::new(support::connect(address));
    client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    let (began, used) = (Instant::now(), cpu_time());
    client.stream.set_read_timeout(Some(Duration::from_millis(700))).expect("it is not zero");
    assert!(client.stream.read(&mut [0]).is_err(), "nobody could accept it");
    let (took, used) = (began.elapsed(), cpu_time() - used);
    assert!(used < took / 5, "{used:?} of processor time in {took:?}");
    // As soon as descriptors come back it is answered.
    shortage.files.truncate(100);
    client.stream.set_read_timeout(Some(support::DEADLINE)).expect("it is not zero");
    assert_eq!(client.answer().status, 200);
}

/// What all threads of this process have used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().expect("positive"), time.tv_nsec.try_into().expect("positive"))
}
