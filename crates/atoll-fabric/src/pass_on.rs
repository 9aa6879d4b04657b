//! Endpoints around another one: what they do not do themselves, they pass on.

/// The named methods of an [`Endpoint`](crate::Endpoint) or a [`Messenger`](crate::Messenger), each
/// passed on to the same one of a field. To be used within the implementation.
///
/// ```
/// use atoll_fabric::{Batch, Endpoint, VerbError, pass_on};
///
/// /// Counts what is posted.
/// struct Counting<E> {
///     inner: E,
///     posts: std::cell::Cell<u64>,
/// }
///
/// impl<E: Endpoint> Endpoint for Counting<E> {
///     async fn post(&self, batch: &mut Batch) -> Result<(), VerbError> {
///         self.posts.set(self.posts.get() + 1);
///         self.inner.post(batch).await
///     }
///
///     pass_on!(inner: read post_unawaited flush expect purpose reach export reach_export provide discard);
///     pass_on!(inner: region_attributes region_bytes provided note_provided charge wait pause);
///     pass_on!(inner: now_ns unix_ms agent_ms boot random limits is_near);
///     pass_on!(inner: identity origin is_dead shut_out fabric);
/// }
/// ```
#[macro_export]
macro_rules! pass_on {
    ($inner:tt: $($method:ident)*) => { $($crate::pass_on!(@ $inner $method);)* };
    (@ $inner:tt post) => {
        #[inline(always)]
        fn post(&self, batch: &mut $crate::Batch) -> impl Future<Output = Result<(), $crate::VerbError>> {
            self.$inner.post(batch)
        }
    };
    (@ $inner:tt read) => {
        #[inline(always)]
        fn read(&self, at: $crate::Address, into: $crate::Buffer) -> impl Future<Output = Result<$crate::Buffer, $crate::VerbError>> {
            self.$inner.read(at, into)
        }
    };
    (@ $inner:tt post_unawaited) => {
        #[inline(always)]
        fn post_unawaited(&self, batch: &mut $crate::Batch) {
            self.$inner.post_unawaited(batch)
        }
    };
    (@ $inner:tt flush) => {
        #[inline(always)]
        fn flush(&self) -> impl Future<Output = Result<(), $crate::VerbError>> {
            self.$inner.flush()
        }
    };
    (@ $inner:tt expect) => {
        #[inline(always)]
        fn expect(&self, at: $crate::Address, bytes: u64, intent: $crate::Intent) -> bool {
            self.$inner.expect(at, bytes, intent)
        }
    };
    (@ $inner:tt purpose) => {
        #[inline(always)]
        fn purpose(&self, purpose: $crate::Purpose) -> $crate::Purpose {
            self.$inner.purpose(purpose)
        }
    };
    (@ $inner:tt reach) => {
        #[inline(always)]
        fn reach(&self, node: u8) -> impl Future<Output = Result<(), $crate::VerbError>> {
            self.$inner.reach(node)
        }
    };
    (@ $inner:tt export) => {
        #[inline(always)]
        fn export(&self, wanted: $crate::RegionAttributes) -> Result<$crate::Address, $crate::FabricError> {
            self.$inner.export(wanted)
        }
    };
    (@ $inner:tt reach_export) => {
        #[inline(always)]
        fn reach_export(&self, at: $crate::Address) -> Result<$crate::RegionAttributes, $crate::VerbError> {
            self.$inner.reach_export(at)
        }
    };
    (@ $inner:tt provide) => {
        #[inline(always)]
        fn provide(&self, at: $crate::Address, bytes: u64) -> impl Future<Output = Result<bool, $crate::VerbError>> {
            self.$inner.provide(at, bytes)
        }
    };
    (@ $inner:tt discard) => {
        #[inline(always)]
        fn discard(&self, at: $crate::Address, bytes: u64) -> impl Future<Output = Result<u64, $crate::VerbError>> {
            self.$inner.discard(at, bytes)
        }
    };
    (@ $inner:tt region_attributes) => {
        #[inline(always)]
        fn region_attributes(&self, node: u8) -> Option<$crate::RegionAttributes> {
            self.$inner.region_attributes(node)
        }
    };
    (@ $inner:tt region_bytes) => {
        #[inline(always)]
        fn region_bytes(&self, node: u8) -> Option<u64> {
            self.$inner.region_bytes(node)
        }
    };
    (@ $inner:tt provided) => {
        #[inline(always)]
        fn provided(&self, node: u8) -> u64 {
            self.$inner.provided(node)
        }
    };
    (@ $inner:tt note_provided) => {
        #[inline(always)]
        fn note_provided(&self, node: u8, bytes: u64) {
            self.$inner.note_provided(node, bytes)
        }
    };
    (@ $inner:tt charge) => {
        #[inline(always)]
        fn charge(&self, ns: u64) {
            self.$inner.charge(ns)
        }
    };
    (@ $inner:tt wait) => {
        #[inline(always)]
        fn wait(&self) {
            self.$inner.wait()
        }
    };
    (@ $inner:tt pause) => {
        #[inline(always)]
        fn pause(&self, ns: u64) -> impl Future<Output = ()> {
            self.$inner.pause(ns)
        }
    };
    (@ $inner:tt now_ns) => {
        #[inline(always)]
        fn now_ns(&self) -> u64 {
            self.$inner.now_ns()
        }
    };
    (@ $inner:tt unix_ms) => {
        #[inline(always)]
        fn unix_ms(&self) -> u64 {
            self.$inner.unix_ms()
        }
    };
    (@ $inner:tt agent_ms) => {
        #[inline(always)]
        fn agent_ms(&self) -> Option<u64> {
            self.$inner.agent_ms()
        }
    };
    (@ $inner:tt boot) => {
        #[inline(always)]
        fn boot(&self) -> Option<u64> {
            self.$inner.boot()
        }
    };
    (@ $inner:tt random) => {
        #[inline(always)]
        fn random(&self) -> u64 {
            self.$inner.random()
        }
    };
    (@ $inner:tt limits) => {
        #[inline(always)]
        fn limits(&self) -> $crate::Limits {
            self.$inner.limits()
        }
    };
    (@ $inner:tt is_near) => {
        #[inline(always)]
        fn is_near(&self) -> bool {
            self.$inner.is_near()
        }
    };
    (@ $inner:tt identity) => {
        #[inline(always)]
        fn identity(&self) -> $crate::Identity {
            self.$inner.identity()
        }
    };
    (@ $inner:tt origin) => {
        #[inline(always)]
        fn origin(&self) -> $crate::Origin {
            self.$inner.origin()
        }
    };
    (@ $inner:tt is_dead) => {
        #[inline(always)]
        fn is_dead(&self, who: $crate::Identity) -> impl Future<Output = Result<bool, $crate::VerbError>> {
            self.$inner.is_dead(who)
        }
    };
    (@ $inner:tt shut_out) => {
        #[inline(always)]
        fn shut_out(&self, who: $crate::Identity) -> impl Future<Output = Result<bool, $crate::VerbError>> {
            self.$inner.shut_out(who)
        }
    };
    (@ $inner:tt fabric) => {
        #[inline(always)]
        fn fabric(&self) -> &'static str {
            self.$inner.fabric()
        }
    };
    (@ $inner:tt mailbox) => {
        #[inline(always)]
        fn mailbox(&self) -> $crate::Mailbox {
            self.$inner.mailbox()
        }
    };
    (@ $inner:tt sign) => {
        #[inline(always)]
        fn sign(&self, sender: $crate::Sender) {
            self.$inner.sign(sender)
        }
    };
    (@ $inner:tt send) => {
        #[inline(always)]
        fn send(&self, to: $crate::Mailbox, bytes: &[u8]) -> Result<(), $crate::MessageError> {
            self.$inner.send(to, bytes)
        }
    };
    (@ $inner:tt receive) => {
        #[inline(always)]
        fn receive(&self) -> impl Future<Output = $crate::Message> {
            self.$inner.receive()
        }
    };
    (@ $inner:tt receive_within) => {
        #[inline(always)]
        fn receive_within(&self, ns: u64) -> impl Future<Output = Option<$crate::Message>> {
            self.$inner.receive_within(ns)
        }
    };
}
