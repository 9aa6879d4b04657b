//! Messages between endpoints, on their way.
//!
//! The world does all that [`Messenger`](atoll_fabric::Messenger) permits: a message is lost,
//! arrives more than once, or takes up to seconds, so that later messages overtake it. How often is
//! drawn from a random stream of its own, so a run without messages does not change.
//!
//! | run | a message |
//! |---|---|
//! | drawn | is lost, doubled or delayed, by the seed |
//! | explored | arrives at once: the run is about the interleavings of verbs |
//! | timed | takes the way of a WRITE, and waits for the receiver's processor if the endpoint is [a memory node's](crate::Sim::endpoint_at) |

use crate::SimEndpoint;
use crate::post_office::{Mail, mailbox_of, port_of};
use crate::shared::Shared;
use crate::timers::Due;
use crate::trace::{FaultEvent, NOBODY};
use crate::world::World;
use atoll_fabric::{
    Endpoint, MAILBOX_MESSAGES_MAX, MESSAGE_BYTES_MAX, Mailbox, Message, MessageError, Messenger, Sender,
};
use std::future::Future;
use std::task::{Poll, Waker};

/// How long a message takes that is not delayed.
const WAY_NS: u64 = 1000;

impl World {
    /// A message sets off from an endpoint.
    fn send(&mut self, from: u32, to: Mailbox, bytes: &[u8]) {
        let number = self.post.sent;
        self.post.sent += 1;
        let lane = self.polled.unwrap_or(NOBODY);
        let Some(to) = port_of(to).filter(|to| (*to as usize) < self.ports.len()) else {
            return self.record_fault(lane, FaultEvent::MessageLost { message: number });
        };
        self.record_fault(lane, FaultEvent::Sent { message: number, to });
        let sender = self.ports[from as usize].mail.sender;
        let message = Message { from: mailbox_of(from), sender, bytes: bytes.to_vec() };
        if self.is_guided() {
            return self.arrive_at(to, number, message);
        }
        if self.timed.is_some() {
            let id = self.post.add(Mail { number, to, message });
            return self.launch_mail(from, id, bytes.len() as u64);
        }
        if self.is_cut(message.from, mailbox_of(to)) || self.post.loses(message.from, mailbox_of(to)) {
            return self.record_fault(lane, FaultEvent::MessageLost { message: number });
        }
        let mut copies = 1;
        while copies < 4 && self.post.random.chance(self.post.chances.double) {
            copies += 1;
        }
        for _ in 0..copies {
            let late = self.post.random.chance(self.post.chances.delay);
            let ns = if late { self.post.random.spread(self.post.delay_bits_max) } else { 0 };
            let id = self.post.add(Mail { number, to, message: message.clone() });
            self.add_timer(WAY_NS + ns, Due::Mail(id));
        }
    }

    /// Messages from one mailbox to another are lost for `ns`.
    pub(crate) fn cut_messages(&mut self, from: Mailbox, to: Mailbox, ns: u64) {
        self.record_fault(NOBODY, FaultEvent::MessagesCut { from, to, ns });
        let until_ns = self.now_ns.saturating_add(ns);
        self.post.cuts.push((from, to, until_ns));
    }

    /// No endpoint's messages are cut any more.
    pub(crate) fn heal_messages(&mut self) {
        self.post.cuts.clear();
    }

    fn is_cut(&mut self, from: Mailbox, to: Mailbox) -> bool {
        let now_ns = self.now_ns;
        self.post.cuts.retain(|(_, _, until_ns)| *until_ns > now_ns);
        self.post.cuts.iter().any(|cut| (cut.0, cut.1) == (from, to))
    }

    /// A message arrives at its mailbox.
    pub(crate) fn deliver(&mut self, id: u32) {
        let mail = self.post.mails[id as usize].take().expect("a message arrives once for each timer");
        self.post.mails_free.push(id);
        self.arrive_at(mail.to, mail.number, mail.message);
    }

    fn arrive_at(&mut self, to: u32, number: u64, message: Message) {
        let port = &self.ports[to as usize];
        let lane = port.lane;
        if port.end.is_dead() || port.mail.inbox.len() >= MAILBOX_MESSAGES_MAX {
            return self.record_fault(lane, FaultEvent::MessageLost { message: number });
        }
        let from = port_of(message.from).expect("an endpoint sent it");
        self.record_fault(lane, FaultEvent::Arrived { message: number, from });
        let mail = &mut self.ports[to as usize].mail;
        mail.inbox.push_back(message);
        self.agenda.woke |= !mail.receivers.is_empty();
        self.agenda.attention |= self.agenda.woke;
        mail.receivers.drain(..).for_each(Waker::wake);
    }
}

impl Messenger for SimEndpoint {
    fn mailbox(&self) -> Mailbox {
        mailbox_of(self.number())
    }

    fn sign(&self, sender: Sender) {
        self.shared().world.borrow_mut().ports[self.number() as usize].mail.sender = sender;
    }

    fn send(&self, to: Mailbox, bytes: &[u8]) -> Result<(), MessageError> {
        let mut world = self.shared().world.borrow_mut();
        if world.standing(self.number()).is_err() {
            return Err(MessageError::Fenced);
        }
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong { bytes: bytes.len() });
        }
        if !world.ghost {
            world.send(self.number(), to, bytes);
        }
        Ok(())
    }

    fn receive(&self) -> impl Future<Output = Message> {
        std::future::poll_fn(|context| receive(self.shared(), self.number(), context.waker()))
    }

    async fn receive_within(&self, ns: u64) -> Option<Message> {
        let mut late = std::pin::pin!(self.pause(ns));
        let mut message = std::pin::pin!(self.receive());
        std::future::poll_fn(|context| match message.as_mut().poll(context) {
            Poll::Ready(message) => Poll::Ready(Some(message)),
            Poll::Pending => late.as_mut().poll(context).map(|()| None),
        })
        .await
    }
}

fn receive(shared: &Shared, number: u32, waker: &Waker) -> Poll<Message> {
    let mut world = shared.world.borrow_mut();
    if world.ghost {
        return Poll::Pending;
    }
    let lane = world.polled.expect("a message is received by a spawned task: see Sim::spawn");
    world.touch();
    let port = &mut world.ports[number as usize];
    // The endpoint belongs to the task that waits here, as with a post.
    port.lane = lane;
    match port.mail.inbox.pop_front() {
        Some(message) => Poll::Ready(message),
        None => {
            if !port.mail.receivers.iter().any(|known| known.will_wake(waker)) {
                port.mail.receivers.push(waker.clone());
            }
            Poll::Pending
        }
    }
}
