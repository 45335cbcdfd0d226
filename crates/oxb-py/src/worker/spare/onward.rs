//! What a Task goes on with after the handler of its job: the body of a stream, then the work for after the response.
//!
//! Invariant: the slot is held until the last of it is done (invariant 4 of ARCHITECTURE.md); what a Task that was
//! cancelled leaves to do is done by another one.

use oxb_http::files::FileReply;
use pyo3::prelude::*;

use super::super::desk::{Desk, is_from_outside};
use super::super::job::{Answer, Held, Onward};
use super::super::stream::Streaming;
use super::{Sent, State, as_coroutine, send};
use crate::reply::{Outcome, to_reply};

impl State {
    /// A job that suspended before returned a value; may yield again when that is a stream.
    pub(super) fn finish(
        &self,
        py: Python<'_>,
        desk: &Desk,
        held: Held,
        value: &Py<PyAny>,
    ) -> Option<Py<PyAny>> {
        let loops = &self.worker.get().loops;
        let Held { plan, asked, context, answer } = held;
        match answer {
            Answer::Streaming(streaming) => {
                let answer = streaming.finish(loops, asked.has_work())?;
                self.after(py, desk, Held { plan, asked, context, answer })
            }
            Answer::Sent(sent) => {
                sent.release(loops);
                None
            }
            Answer::Owed(owed) => match to_reply(py, value.bind(py), &plan.answers) {
                Ok(outcome) => {
                    let held = Held { plan, asked, context, answer: Answer::Owed(owed) };
                    self.answer(py, desk, held, outcome)
                }
                Err(error) => {
                    desk.fail(py, &plan, asked, owed, error);
                    None
                }
            },
        }
    }

    /// Answers with what a handler returned.
    pub(super) fn answer(
        &self,
        py: Python<'_>,
        desk: &Desk,
        held: Held,
        outcome: Outcome,
    ) -> Option<Py<PyAny>> {
        let Held { plan, asked, context, answer } = held;
        match (answer, outcome) {
            (Answer::Owed(owed), Outcome::Whole(reply)) => {
                asked.tell_failure(owed.responder.exchange());
                if !asked.has_work() {
                    owed.reply(&self.worker.get().loops, reply);
                    return None;
                }
                let answer = Answer::Sent(owed.reply_and_hold(reply));
                self.after(py, desk, Held { plan, asked, context, answer })
            }
            (answer, outcome) => self.go_on(py, desk, Held { plan, asked, context, answer }, Some(outcome)),
        }
    }

    /// A job's coroutine raised.
    pub(super) fn broke(&self, py: Python<'_>, desk: &Desk, held: Held, error: PyErr) {
        let loops = &self.worker.get().loops;
        let Held { plan, mut asked, context, answer } = held;
        match answer {
            Answer::Owed(owed) => desk.fail(py, &plan, asked, owed, error),
            Answer::Sent(sent) => {
                let is_expected = is_from_outside(py, loops, sent.exchange(), &error);
                sent.release(loops);
                if !is_expected {
                    error.write_unraisable(py, None);
                }
            }
            Answer::Streaming(streaming) => {
                let is_expected = streaming.exchange().is_abandoned()
                    || is_from_outside(py, loops, streaming.exchange(), &error);
                let answer = streaming.fail(loops, asked.has_work());
                if !is_expected {
                    desk.log_failure(py, &mut asked, error);
                }
                if let Some(answer) = answer {
                    // This Task may bear the mark of its cancellation.
                    desk.put_onward(Onward { held: Held { plan, asked, context, answer }, stream: None });
                    desk.queue.rearm();
                }
            }
        }
    }

    /// Does what is to be done after the response.
    fn after(&self, py: Python<'_>, desk: &Desk, held: Held) -> Option<Py<PyAny>> {
        if held.answer.exchange().is_abandoned() {
            // As in `broke`.
            desk.put_onward(Onward { held, stream: None });
            desk.queue.rearm();
            return None;
        }
        self.go_on(py, desk, held, None)
    }

    /// Goes on with the stream, whose head is sent now, or else with the work for after the response.
    pub(super) fn go_on(
        &self,
        py: Python<'_>,
        desk: &Desk,
        held: Held,
        stream: Option<Outcome>,
    ) -> Option<Py<PyAny>> {
        let Held { plan, mut asked, context, answer } = held;
        let (answer, made) = match (answer, stream) {
            (Answer::Owed(owed), Some(Outcome::Stream { head, source, declared })) => {
                let streaming = Streaming::begin(owed, head, declared, desk.event_loop.clone_ref(py));
                let outlet = Py::new(py, streaming.outlet());
                let made = outlet
                    .and_then(|outlet| desk.site.send_stream.bind(py).call1((source, outlet, declared)));
                (Answer::Streaming(streaming), made)
            }
            (Answer::Owed(owed), Some(Outcome::File { path, head, file })) => {
                let reply = FileReply::new(path, head, asked.head());
                let streaming = Streaming::begin_file(owed, reply, desk.event_loop.clone_ref(py));
                let outlet = Py::new(py, streaming.outlet());
                let made =
                    outlet.and_then(|outlet| desk.site.send_stream.bind(py).call1((file, outlet, py.None())));
                (Answer::Streaming(streaming), made)
            }
            (answer, _) => {
                let request = asked.show(py, &desk.site).map(|request| request.clone_ref(py));
                (answer, request.and_then(|request| desk.site.run_after.bind(py).call1((request,))))
            }
        };
        let held = Held { plan, asked, context, answer };
        let coroutine = match made.and_then(as_coroutine) {
            Ok(coroutine) => coroutine,
            Err(error) => {
                self.broke(py, desk, held, error);
                return None;
            }
        };
        self.coroutine.replace(Some(coroutine.clone().unbind()));
        let sent = match held.context.enter(py) {
            Err(error) => Sent::Raised(error),
            Ok(entered) => {
                // SAFETY: `coroutine` owns the object for the call.
                let sent = unsafe { send(py, coroutine.as_ptr()) };
                drop(entered);
                sent
            }
        };
        match sent {
            Sent::Yielded(awaited) => {
                self.hold(py, held);
                Some(awaited)
            }
            Sent::Returned(value) => {
                self.coroutine.take();
                self.finish(py, desk, held, &value)
            }
            Sent::Raised(error) => {
                self.coroutine.take();
                self.broke(py, desk, held, error);
                None
            }
        }
    }
}
