//! The endpoint of a client of a simulated case.

use crate::stops::Stops;
use atoll_fabric::batch::Operation;
use atoll_fabric::pass_on;
use atoll_fabric::{Batch, Endpoint, Messenger, VerbError};
use atoll_sim::SimEndpoint;

/// A simulated endpoint whose client can be slow to publish, and stops where a test says.
pub struct CaseEndpoint {
    inner: SimEndpoint,
    /// The longest pause before a batch that WRITEs a record and swaps a slot; 0 for none.
    publish_delay_ns_max: u64,
    /// Where the client stops.
    stops: Stops,
}

impl CaseEndpoint {
    /// An endpoint that never pauses and never stops.
    pub fn new(inner: SimEndpoint) -> Self {
        Self::with_stops(inner, 0, Stops::default())
    }

    /// An endpoint that pauses for up to `publish_delay_ns_max` before it publishes, and has these
    /// stops.
    pub(crate) fn with_stops(inner: SimEndpoint, publish_delay_ns_max: u64, stops: Stops) -> Self {
        Self { inner, publish_delay_ns_max, stops }
    }

    /// Virtual nanoseconds since the simulation began.
    pub fn virtual_ns(&self) -> u64 {
        self.inner.virtual_ns()
    }
}

impl Endpoint for CaseEndpoint {
    async fn post(&self, batch: &mut Batch) -> Result<(), VerbError> {
        let is = |wanted: fn(&Operation) -> bool| batch.verbs().iter().any(|verb| wanted(&verb.operation));
        let publishes = self.publish_delay_ns_max > 0
            && is(|operation| matches!(operation, Operation::Write { .. }))
            && is(|operation| matches!(operation, Operation::CompareAndSwap { .. }));
        if publishes {
            self.inner.pause(self.random() % self.publish_delay_ns_max).await;
        }
        self.stops.post(&self.inner, batch).await
    }

    pass_on!(inner: post_unawaited flush provide discard region_attributes wait boot);
    pass_on!(inner: region_state silent has_ended forsake remove_forsaken end is_over place find_place remake purpose reach export reach_export reach_export_if follow own_word);
    pass_on!(inner: provided charge pause now_ns unix_ms agent_ms random limits is_near);
    pass_on!(inner: identity origin is_dead shut_out fabric);
}

impl Messenger for CaseEndpoint {
    pass_on!(inner: mailbox sign send receive receive_within);
}
