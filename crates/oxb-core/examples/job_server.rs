//! A job server: clients send lines over TCP, loops do the work, answers come back as they are done.
//!
//! One thread a connection reads lines and submits them; loops compute; one writer thread a connection owns a
//! `ReturnQueue` and sends the answers, woken only when it sleeps. Overload is answered at once, not queued.
//!
//! ```text
//! cargo run -p oxb-core --example job_server -- 127.0.0.1:7070 &
//! printf '1 primes 100000\n2 sleep 50\n3 stats\n4 stop\n' | nc -q 5 127.0.0.1 7070
//! ```
//!
//! Each line is `id command [number]`; each answer begins with the id it belongs to. Without an address the server
//! talks to standard input and output, and ends when the input does.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use oxb_core::{LoopSetOptions, Probe, ReturnQueue, RustLoops, SubmitError, SystemReadings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = LoopSetOptions {
        loop_count: Probe::read(&SystemReadings::default()).detected,
        slots_per_loop: 256,
        queue_timeout: Some(Duration::from_secs(2)),
        ..LoopSetOptions::default()
    };
    let loops = Arc::new(RustLoops::start(&options)?);
    match std::env::args().nth(1) {
        Some(address) => serve(&address, &loops)?,
        None => {
            let answers = Arc::new(Answers::new()?);
            thread::scope(|scope| {
                let writer = scope.spawn(|| answers.write_to(io::stdout().lock()));
                let read = read_lines(io::stdin().lock(), &loops, &answers);
                answers.no_more_requests();
                writer.join().expect("the writer does not panic")?;
                read.map(|_| ())
            })?;
        }
    }
    let panics = loops.panic_count();
    drop(loops); // runs what was accepted, then ends the threads
    if panics > 0 {
        eprintln!("{panics} job(s) panicked");
    }
    Ok(())
}

/// Accepts connections until one of them says `stop`.
fn serve(address: &str, loops: &Arc<RustLoops>) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    println!("listening on {address}, {} loop(s)", loops.loop_set().loop_count());
    let is_stopping = AtomicBool::new(false);
    thread::scope(|scope| {
        for connection in listener.incoming() {
            if is_stopping.load(Ordering::Acquire) {
                break; // pairs with the Release below; this connection was made to say so
            }
            let Ok(connection) = connection else { continue };
            scope.spawn(|| match talk(connection, loops) {
                Ok(true) => {
                    is_stopping.store(true, Ordering::Release);
                    // Ends the wait in `incoming`.
                    drop(TcpStream::connect(address));
                }
                Ok(false) => {}
                Err(error) => eprintln!("connection: {error}"),
            });
        }
    });
    Ok(())
}

/// One client, until it ends its side; whether it said `stop`.
fn talk(connection: TcpStream, loops: &RustLoops) -> io::Result<bool> {
    connection.set_nodelay(true)?;
    let answers = Arc::new(Answers::new()?);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = answers.write_to(&connection);
            // A client that takes no answers any more gets no more work done either.
            let _ = connection.shutdown(if written.is_ok() { Shutdown::Write } else { Shutdown::Both });
            written
        });
        let read = read_lines(BufReader::new(&connection), loops, &answers);
        answers.no_more_requests();
        writer.join().expect("the writer does not panic")?;
        read
    })
}

/// Submits each line as a job; whether one of them was `stop`.
fn read_lines(input: impl BufRead, loops: &RustLoops, answers: &Arc<Answers>) -> io::Result<bool> {
    for line in input.lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let (Some(id), Some(command)) = (words.next(), words.next()) else { continue };
        let number: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let id = id.to_owned();
        answers.expect_one();
        let work = match command {
            "stop" => {
                answers.give(format!("{id} stopping"));
                return Ok(true);
            }
            "stats" => {
                answers.give(format!("{id} {}", stats(loops)));
                continue;
            }
            "primes" => Work::Primes(number.min(10_000_000)),
            "sleep" => Work::Sleep(Duration::from_millis(number.min(10_000))),
            other => {
                answers.give(format!("{id} error: no command {other:?}"));
                continue;
            }
        };
        // The answer is given when the job is dropped: run, panicked or refused.
        let mut answer = Answer { id, text: "error: overloaded".into(), to: Arc::clone(answers) };
        let job = move |context: &oxb_core::JobContext| {
            answer.say("error: the job failed".into());
            answer.say(if context.late {
                "error: waited too long".into()
            } else {
                format!("{} (loop {})", work.run(), context.loop_id.index())
            });
        };
        if let Err(SubmitError::Overloaded { job } | SubmitError::Stopping { job }) = loops.submit(job) {
            drop(job);
        }
    }
    Ok(false)
}

enum Work {
    Primes(u64),
    Sleep(Duration),
}

impl Work {
    fn run(&self) -> String {
        match self {
            Work::Primes(limit) => {
                let count =
                    (2..*limit).filter(|n| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0)).count();
                format!("{count} primes below {limit}")
            }
            Work::Sleep(length) => {
                thread::sleep(*length);
                format!("slept {} ms", length.as_millis())
            }
        }
    }
}

fn stats(loops: &RustLoops) -> String {
    let set = loops.loop_set();
    let each = set.loop_ids().map(|loop_id| {
        let gauges = set.gauges(loop_id);
        format!(
            "loop {}: {} held, {} queued, {} taken, {} taken over, p99 wait {} us",
            loop_id.index(),
            gauges.slots_taken,
            gauges.queued,
            gauges.jobs_taken,
            gauges.jobs_stolen,
            gauges.queue_wait.quantile(0.99).0
        )
    });
    format!("{}; {} refused", each.collect::<Vec<_>>().join("; "), set.refused_count())
}

/// An answer that is given when it is dropped, whatever became of the job that holds it.
struct Answer {
    id: String,
    text: String,
    to: Arc<Answers>,
}

impl Answer {
    fn say(&mut self, text: String) {
        self.text = text;
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.to.give(format!("{} {}", self.id, self.text));
    }
}

/// The way back to one client.
struct Answers {
    queue: ReturnQueue<String>,
    /// Requests without an answer yet, and one for the reader while it reads.
    open: AtomicUsize,
}

impl Answers {
    fn new() -> io::Result<Answers> {
        Ok(Answers { queue: ReturnQueue::new()?, open: AtomicUsize::new(1) })
    }

    fn expect_one(&self) {
        self.open.fetch_add(1, Ordering::Relaxed); // the answer it counts is given after it, by whoever gets the job
    }

    fn give(&self, line: String) {
        self.queue.push(line);
    }

    fn no_more_requests(&self) {
        self.give(String::new()); // stands for the reader; the writer counts it and writes nothing
    }

    /// Writes answers until all are given; flushes before it sleeps.
    fn write_to(&self, output: impl Write) -> io::Result<()> {
        let mut output = BufWriter::new(output);
        loop {
            while let Some(line) = self.queue.pop() {
                if !line.is_empty() {
                    writeln!(output, "{line}")?;
                }
                // Relaxed: the reader's own count is the last that can be missing, and it comes through the queue,
                // after all that it counted.
                if self.open.fetch_sub(1, Ordering::Relaxed) == 1 {
                    return output.flush();
                }
            }
            output.flush()?;
            if self.queue.prepare_to_sleep() {
                self.queue.signal().wait(None)?;
                self.queue.signal().consume(); // a level-triggered wait, so it is read
                self.queue.awake();
            }
        }
    }
}
