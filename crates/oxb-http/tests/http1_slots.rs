//! A loop that holds few requests: a slot is free before its client can ask again.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use oxb_core::{LoopSet, LoopSetOptions, SubmitError, Worker};
use oxb_http::exchange::Responder;
use oxb_http::options::{Place, ServerOptions};
use oxb_http::reply::Reply;
use oxb_http::request::Request;
use oxb_http::server::Server;
use oxb_http::service::Service;

const SLOTS: usize = 4;
const BURSTS: usize = 5_000;

/// A service with a loop, as the Python bridge is one.
struct Dispatch(Arc<LoopSet<Responder, ()>>);

impl Service for Dispatch {
    fn call(&self, request: Request, responder: Responder) {
        drop(request);
        if let Err(SubmitError::Overloaded { job } | SubmitError::Stopping { job }) = self.0.submit(responder)
        {
            job.overloaded();
        }
    }
}

/// Takes jobs until it is told to end. The slot is free before the answer is on its way: behind it the client may
/// have its answer, and its next request be here, before this thread takes another step.
fn serve(worker: &Worker<Responder, ()>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        let _ = worker.wait(Some(Duration::from_millis(100))).expect("an open descriptor can be polled");
        worker.acknowledge();
        while let Some(taken) = worker.pop() {
            assert!(taken.job.begin(worker.loop_id()), "every client waits");
            // A handler's work. The I/O thread sleeps meanwhile, so the answer wakes it, and it may well run before
            // this thread goes on.
            let end = Instant::now() + Duration::from_micros(100);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            worker.loop_set().release(taken.slot);
            taken.job.reply(Reply::new(200, "text/plain", "done"));
        }
    }
}

#[test]
fn as_many_clients_as_slots_are_never_refused_when_each_waits_for_its_answer() {
    let options = LoopSetOptions { slots_per_loop: SLOTS, ..LoopSetOptions::default() };
    let set = Arc::new(LoopSet::new(&options).expect("one loop needs one descriptor"));
    let worker = Worker::new(&set, 0).expect("nobody else owns it");
    let is_over = Arc::new(AtomicBool::new(false));
    let serving = {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || serve(&worker, &is_over))
    };
    let (router, route_options) = support::routes();
    let place = Place::Tcp { host: "127.0.0.1".into(), port: 0 };
    let bound =
        Server::bind(place, ServerOptions { io_threads: 2, ..ServerOptions::default() }).expect("it is free");
    let mut running = bound.start(router, route_options, Arc::new(Dispatch(set))).expect("threads are left");
    let oxb_http::listener::Address::Tcp(address) = *running.address() else { panic!("it has a port") };

    let mut clients: Vec<_> = (0..SLOTS).map(|_| support::Client::new(support::connect(address))).collect();
    let mut refused = 0;
    for _ in 0..BURSTS {
        for client in &mut clients {
            client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        refused += clients.iter_mut().map(|client| usize::from(client.answer().status != 200)).sum::<usize>();
    }
    assert_eq!(refused, 0, "of {}", BURSTS * SLOTS);
    drop(clients);
    running.drain();
    assert!(running.wait_closed(support::DEADLINE));
    is_over.store(true, Ordering::SeqCst);
    serving.join().expect("no panic");
}
