//! What endpoints and the simulation share: the world, the tasks, and their wakers.

use crate::client::ClientId;
use crate::presence::Presence;
use crate::world::World;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

/// What endpoints and the simulation share.
pub(crate) struct Shared {
    pub(crate) world: RefCell<World>,
    pub(crate) seed: u64,
    pub(crate) epoch_ms: u64,
    /// The clients that have regions open.
    pub(crate) presence: Presence,
    /// By lane. Counted here as well, since the counts of wakers themselves are atomic: a poll
    /// would pay more for those than for finding its task.
    pub(crate) wakers: RefCell<Vec<Rc<Waker>>>,
    pub(crate) wakes: Arc<Wakes>,
    /// By lane; `None` once done, and while polled. A simulation that ends drops them, so that they
    /// may hold what holds them.
    pub(crate) tasks: RefCell<Vec<Option<Task>>>,
}

impl Shared {
    pub(crate) fn spawn(&self, name: &str, mortal: bool, future: impl Future<Output = ()> + 'static) -> ClientId {
        let lane = self.world.borrow_mut().add_lane(name, mortal);
        let waker = Waker::from(Arc::new(LaneWaker { lane, wakes: self.wakes.clone() }));
        self.wakers.borrow_mut().push(Rc::new(waker));
        self.tasks.borrow_mut().push(Some(Box::pin(future)));
        ClientId(lane)
    }

    /// The waker of `context`, unless it is the lane's own, which the world wakes without.
    #[inline]
    pub(crate) fn foreign_waker(&self, lane: Option<u32>, context: &Context<'_>) -> Option<Waker> {
        let wakers = self.wakers.borrow();
        match lane {
            Some(lane) if wakers[lane as usize].will_wake(context.waker()) => None,
            _ => Some(context.waker().clone()),
        }
    }
}

/// Lanes woken through their wakers, which may be anywhere.
#[derive(Default)]
pub(crate) struct Wakes {
    pub(crate) any: AtomicBool,
    pub(crate) lanes: Mutex<Vec<u32>>,
}

struct LaneWaker {
    lane: u32,
    wakes: Arc<Wakes>,
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.lanes.lock().expect("no wake panics").push(self.lane);
        self.wakes.any.store(true, Ordering::Release);
    }
}

pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;
