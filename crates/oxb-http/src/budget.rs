//! One budget of bytes for all collected bodies of a server.
//!
//! Invariant 10 of ARCHITECTURE.md: bodies are bounded in sum. A body that does not fit waits (its socket is
//! left unread) until others end; the connection bounds that wait. Where every taken byte belongs to a body that
//! waits and what is free is enough for none of them, no wait would ever end: one body of that circle is refused.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

/// Bytes that collected bodies may take together.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
    /// How many wait, so that giving back needs no lock while nobody does.
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
}

/// The bodies that wait, in the order they came.
#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    waits: Vec<Wait>,
}

#[derive(Debug)]
struct Wait {
    ticket: u64,
    held: u64,
    needed: u64,
    waker: Waker,
}

/// A body's place among those that wait. Given back by [`Budget::leave`].
#[derive(Debug)]
pub(crate) struct Ticket(u64);

/// What became of an attempt to take bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// They were taken.
    Taken,
    /// Not now: the waker is woken when they may fit.
    Later,
    /// Bodies wait for each other, and this is the one to give up.
    Never,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(Queue::default()),
        }
    }

    /// Takes `count` bytes, or none.
    pub(crate) fn take(&self, count: u64) -> bool {
        let fitting = |used: u64| used.checked_add(count).filter(|&used| used <= self.limit);
        // SeqCst: with `take_or_wait` and `give_back` below, so that a body that found the budget full is woken.
        // What does not fit is never added, not even for a moment: another body could be turned away by it, and
        // nobody would wake that one.
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fitting).is_ok()
    }

    /// Takes `count` bytes for a body that holds `held`, or gives it a place among those that wait.
    pub(crate) fn take_or_wait(
        &self,
        count: u64,
        held: u64,
        ticket: &mut Option<Ticket>,
        waker: &Waker,
    ) -> Room {
        if self.take(count) {
            self.leave(ticket);
            return Room::Taken;
        }
        let mut queue = self.lock();
        let Ticket(own) = *ticket.get_or_insert_with(|| {
            queue.next_ticket += 1;
            Ticket(queue.next_ticket)
        });
        match queue.waits.iter_mut().find(|wait| wait.ticket == own) {
            Some(wait) => (wait.held, wait.needed) = (held, count),
            None => queue.waits.push(Wait { ticket: own, held, needed: count, waker: waker.clone() }),
        }
        self.waiting.store(queue.waits.len(), Ordering::SeqCst);
        // Bytes may have come back before `waiting` said that somebody cares.
        if self.take(count) {
            drop(queue);
            self.leave(ticket);
            return Room::Taken;
        }
        if self.is_circle(&queue) {
            drop(queue);
            self.leave(ticket);
            return Room::Never;
        }
        Room::Later
    }

    /// A body waits no longer, whether it got its bytes or gave up.
    pub(crate) fn leave(&self, ticket: &mut Option<Ticket>) {
        let Some(Ticket(own)) = ticket.take() else { return };
        let mut queue = self.lock();
        queue.waits.retain(|wait| wait.ticket != own);
        self.waiting.store(queue.waits.len(), Ordering::SeqCst);
        // It may have been the one that what is free was enough for.
        self.wake(queue);
    }

    /// Gives `count` bytes back and wakes those that may go on.
    pub(crate) fn give_back(&self, count: u64) {
        if count == 0 {
            return;
        }
        self.used.fetch_sub(count, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake(self.lock());
        }
    }

    /// Bytes taken now.
    pub(crate) fn used(&self) -> u64 {
        // Relaxed: a gauge.
        self.used.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no holder of this lock panics")
    }

    /// Wakes every body that would fit; in a circle the youngest, which finds it and gives up.
    fn wake(&self, queue: MutexGuard<'_, Queue>) {
        let free = self.free();
        let mut wakers: Vec<Waker> =
            queue.waits.iter().filter(|wait| wait.needed <= free).map(|wait| wait.waker.clone()).collect();
        if self.is_circle(&queue) {
            wakers.extend(queue.waits.last().map(|wait| wait.waker.clone()));
        }
        drop(queue);
        for waker in wakers {
            waker.wake();
        }
    }

    /// Whether bodies wait for each other and for nobody else. One that what is free is enough for has been woken
    /// and goes on, though it has not been polled yet.
    fn is_circle(&self, queue: &Queue) -> bool {
        // SeqCst: a body takes before it waits, so what those who wait hold is in `used` here.
        let used = self.used.load(Ordering::SeqCst);
        let held: u64 = queue.waits.iter().map(|wait| wait.held).sum();
        let free = self.limit.saturating_sub(used);
        !queue.waits.is_empty() && held >= used && queue.waits.iter().all(|wait| wait.needed > free)
    }

    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A body, as the budget sees one.
    struct Body {
        held: u64,
        ticket: Option<Ticket>,
        wakes: Arc<Count>,
    }

    impl Body {
        fn holding(budget: &Budget, held: u64) -> Self {
            assert!(budget.take(held));
            Self { held, ticket: None, wakes: Arc::new(Count(AtomicUsize::new(0))) }
        }

        fn wants(&mut self, budget: &Budget, count: u64) -> Room {
            let waker = Waker::from(Arc::clone(&self.wakes));
            let room = budget.take_or_wait(count, self.held, &mut self.ticket, &waker);
            if room == Room::Taken {
                self.held += count;
            }
            assert_eq!(self.ticket.is_some(), room == Room::Later, "only a body that waits has a place");
            room
        }

        fn wakes(&self) -> usize {
            self.wakes.0.load(Ordering::SeqCst)
        }

        fn end(mut self, budget: &Budget) {
            budget.leave(&mut self.ticket);
            budget.give_back(self.held);
        }
    }

    #[test]
    fn bytes_over_the_limit_wait_until_others_come_back() {
        let budget = Budget::new(10);
        let (first, mut second) = (Body::holding(&budget, 8), Body::holding(&budget, 0));
        assert_eq!(second.wants(&budget, 3), Room::Later);
        assert_eq!(budget.used(), 8, "a body that did not fit takes nothing");
        first.end(&budget);
        assert_eq!((second.wakes(), second.wants(&budget, 3)), (1, Room::Taken));
        let wakes = Arc::clone(&second.wakes);
        second.end(&budget);
        assert_eq!((budget.used(), wakes.0.load(Ordering::SeqCst)), (0, 1), "nobody waits any more");
    }

    #[test]
    fn a_body_is_woken_by_bytes_that_are_enough_for_it_and_by_no_others() {
        let budget = Budget::new(100);
        let (busy, mut small, mut large) =
            (Body::holding(&budget, 100), Body::holding(&budget, 0), Body::holding(&budget, 0));
        assert_eq!((small.wants(&budget, 10), large.wants(&budget, 50)), (Room::Later, Room::Later));
        budget.give_back(9);
        assert_eq!((small.wakes(), large.wakes()), (0, 0));
        budget.give_back(1);
        assert_eq!((small.wakes(), large.wakes()), (1, 0));
        assert_eq!(small.wants(&budget, 10), Room::Taken);
        drop(busy);
    }

    #[test]
    fn the_body_that_completes_a_circle_gives_up_and_the_others_go_on() {
        let budget = Budget::new(100);
        let (mut first, mut second) = (Body::holding(&budget, 50), Body::holding(&budget, 50));
        assert_eq!(first.wants(&budget, 10), Room::Later);
        assert_eq!(second.wants(&budget, 10), Room::Never);
        second.end(&budget);
        assert_eq!((first.wakes(), first.wants(&budget, 10)), (1, Room::Taken));
    }

    /// A third body kept the circle open and ends; what it leaves is enough for neither of the two.
    #[test]
    fn a_circle_that_closes_by_the_end_of_another_body_is_found() {
        let budget = Budget::new(100);
        let (mut first, mut second, third) =
            (Body::holding(&budget, 45), Body::holding(&budget, 45), Body::holding(&budget, 10));
        assert_eq!((first.wants(&budget, 20), second.wants(&budget, 20)), (Room::Later, Room::Later));
        third.end(&budget);
        assert_eq!((first.wakes(), second.wakes()), (0, 1), "the youngest is told");
        assert_eq!(second.wants(&budget, 20), Room::Never);
        second.end(&budget);
        assert_eq!((first.wakes(), first.wants(&budget, 20)), (1, Room::Taken));
    }

    /// Whoever looks first after bytes came back must not take those that are on their way for a circle.
    #[test]
    fn there_is_no_circle_while_what_is_free_is_enough_for_one_of_those_that_wait() {
        let budget = Budget::new(100);
        let (mut large, mut small, other) =
            (Body::holding(&budget, 40), Body::holding(&budget, 40), Body::holding(&budget, 20));
        assert_eq!((large.wants(&budget, 35), small.wants(&budget, 5)), (Room::Later, Room::Later));
        other.end(&budget);
        assert_eq!(large.wants(&budget, 35), Room::Later, "the small one has room and will end");
        assert_eq!((small.wakes(), small.wants(&budget, 5)), (1, Room::Taken));
        small.end(&budget);
        assert_eq!((large.wakes(), large.wants(&budget, 35)), (1, Room::Taken));
    }

    #[test]
    fn a_circle_that_closes_because_a_body_left_is_found() {
        let budget = Budget::new(100);
        let (mut first, mut second, mut third, other) = (
            Body::holding(&budget, 45),
            Body::holding(&budget, 45),
            Body::holding(&budget, 0),
            Body::holding(&budget, 10),
        );
        assert_eq!((first.wants(&budget, 20), second.wants(&budget, 20)), (Room::Later, Room::Later));
        assert_eq!(third.wants(&budget, 10), Room::Later);
        other.end(&budget);
        assert_eq!((third.wakes(), second.wakes()), (1, 0));
        // Its client leaves before it is polled.
        third.end(&budget);
        assert_eq!((second.wakes(), second.wants(&budget, 20)), (1, Room::Never));
    }
}
