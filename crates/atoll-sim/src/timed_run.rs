//! The steps of a timed run: events happen in the order of virtual time.

use crate::flight::Failure;
use crate::network::events::Event;
use crate::world::{Next, World};

impl World {
    /// Lets events happen until a task is to be polled.
    pub(crate) fn advance_timed(&mut self, steps_end: u64) -> Next {
        loop {
            if self.agenda.attention
                && let Some(next) = self.attend()
            {
                return next;
            }
            let timed = self.timed.as_mut().expect("a timed run");
            if let Some(lane) = timed.ready.pop_front() {
                if self.lanes[lane as usize].done {
                    continue;
                }
                return self.poll_timed(lane);
            }
            if self.steps >= steps_end && timed.events.next_at().is_some_and(|at| at <= timed.end_ps) {
                return Next::Bound;
            }
            let Some((at, event)) = timed.events.take_until(timed.end_ps) else { return Next::Idle };
            self.steps += 1;
            timed.now_ps = at;
            self.now_ns = at / 1000;
            match event {
                Event::Poll(lane) if self.lanes[lane as usize].done => {}
                Event::Poll(lane) => return self.poll_timed(lane),
                Event::Ring(lane) => self.ring(lane),
                Event::Doorbell(id) => timed.send(id, &self.flights[id as usize], &self.memory),
                Event::Request(id, index) => {
                    timed.request(id, index);
                    self.effect_timed(id, index);
                }
                Event::Ready(id, index) => timed.ready(id, index),
                Event::Response(id, index) => {
                    if timed.response(id, index) {
                        timed.send(id, &self.flights[id as usize], &self.memory);
                    }
                }
                Event::Completion(id) => self.arrive(id, self.lost_meanwhile(id)),
                Event::MailOut(id) => {
                    let (ports, bytes) = self.post.on_the_way(id);
                    timed.mail_out(id, ports, bytes);
                }
                Event::MailIn(id) => {
                    let ((_, to), _) = self.post.on_the_way(id);
                    timed.mail_in(id, to, self.post.bytes(id));
                }
                Event::Mail(id) => self.deliver(id),
            }
        }
    }

    /// Whether something is still to happen in a timed run.
    pub(crate) fn has_more(&mut self) -> bool {
        self.timed.as_mut().is_some_and(|timed| timed.events.next_at().is_some())
    }

    fn poll_timed(&mut self, lane: u32) -> Next {
        let timed = self.timed.as_mut().expect("a timed run");
        let busy_until = &mut timed.busy_until[lane as usize];
        *busy_until = timed.now_ps.max(*busy_until) + timed.cpu.poll_ps;
        self.now_ns = *busy_until / 1000;
        self.lanes[lane as usize].woken = false;
        self.record(lane, u32::MAX, None);
        Next::Poll(lane)
    }

    /// A verb takes effect, unless its batch was cut by a fence.
    fn effect_timed(&mut self, id: u32, index: u8) {
        if self.lost_meanwhile(id).is_some() {
            return self.flights[id as usize].cut();
        }
        let flight = &mut self.flights[id as usize];
        let lane = flight.lane;
        if let Some(effect) = flight.effect(index as usize, &mut self.memory) {
            self.tally.verbs += 1;
            self.record(lane, id, Some(effect));
        }
    }

    /// Whether a batch touches a region that was lost since its endpoint was made.
    fn lost_meanwhile(&self, id: u32) -> Option<Failure> {
        let flight = &self.flights[id as usize];
        let is_lost = |(node, ports): &(u8, u32)| flight.endpoint < *ports && flight.nodes() >> node & 1 == 1;
        self.losses.iter().any(is_lost).then_some(Failure::PeerDead)
    }

    /// Sends a batch off that has boarded its flight.
    pub(crate) fn launch_timed(&mut self, lane: u32, endpoint: u32, id: u32) {
        let flight = &self.flights[id as usize];
        let timed = self.timed.as_mut().expect("a timed run");
        if timed.is_at_home(endpoint, flight) {
            timed.do_at_home(lane, endpoint, id, flight);
            self.now_ns = timed.busy_until[lane as usize] / 1000;
            let verbs = flight.verbs().len() as u8;
            (0..verbs).for_each(|index| self.effect_timed(id, index));
            return;
        }
        timed.post(lane, endpoint, id, flight);
        self.now_ns = timed.busy_until[lane as usize] / 1000;
    }

    /// Sends a message off.
    pub(crate) fn launch_mail(&mut self, endpoint: u32, id: u32, bytes: u64) {
        let lane = self.polled.expect("a message is sent by a spawned task: see Sim::spawn");
        let timed = self.timed.as_mut().expect("a timed run");
        timed.post_mail(lane, endpoint, id, bytes);
        self.now_ns = timed.busy_until[lane as usize] / 1000;
    }

    /// Charges the processor of the client that is being polled.
    pub(crate) fn charge_ps(&mut self, ps: u64) {
        let (Some(timed), Some(lane)) = (&mut self.timed, self.polled) else { return };
        let busy_until = &mut timed.busy_until[lane as usize];
        *busy_until += ps;
        self.now_ns = *busy_until / 1000;
    }

    /// The results of a batch are taken by its client.
    #[inline]
    pub(crate) fn charge_results(&mut self, id: u32) {
        let (Some(timed), Some(lane)) = (&mut self.timed, self.polled) else { return };
        let posts = &self.ports[self.flights[id as usize].endpoint as usize].posts;
        timed.take_results(lane, id, posts.in_flight > posts.unawaited);
        self.now_ns = timed.busy_until[lane as usize] / 1000;
    }

    /// A lane that was asleep is to be polled as soon as its processor is free.
    #[inline]
    pub(crate) fn wake_timed(&mut self, lane: u32) {
        let timed = self.timed.as_mut().expect("a timed run");
        timed.poll_at(lane, timed.now_ps);
    }
}
