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
///     pass_on!(inner: read read_into write_from post_unawaited flush expect purpose);
///     pass_on!(inner: reach export reach_export reach_export_if follow own_word);
///     pass_on!(inner: region_state silent has_ended forsake remove_forsaken);
///     pass_on!(inner: place find_place remake);
///     pass_on!(inner: end is_over provide discard);
///     pass_on!(inner: region_attributes region_bytes provided note_provided charge);
///     pass_on!(inner: wait arrivals pause now_ns unix_ms agent_ms boot random traffic limits);
///     pass_on!(inner: is_near keeps_order identity origin is_dead shut_out fabric);
/// }
/// ```
#[macro_export]
macro_rules! pass_on {
    ($inner:tt: $($method:ident)*) => { $($crate::pass_on!(@ $inner $method);)* };
    (@ $inner:tt post) => {
        $crate::pass_on!(= $inner post(batch: &mut $crate::Batch) -> impl Future<Output = Result<(), $crate::VerbError>>);
    };
    (@ $inner:tt read) => {
        $crate::pass_on!(= $inner read(at: $crate::Address, into: $crate::Buffer) -> impl Future<Output = Result<$crate::Buffer, $crate::VerbError>>);
    };
    (@ $inner:tt read_into) => {
        $crate::pass_on!(= $inner read_into(at: $crate::Address, into: &mut [u8], spare: &mut $crate::Buffer) -> impl Future<Output = Result<(), $crate::VerbError>>);
    };
    (@ $inner:tt write_from) => {
        $crate::pass_on!(= $inner write_from(at: $crate::Address, from: &[u8], spare: &mut $crate::Buffer) -> impl Future<Output = Result<(), $crate::VerbError>>);
    };
    (@ $inner:tt post_unawaited) => {
        $crate::pass_on!(= $inner post_unawaited(batch: &mut $crate::Batch) -> ());
    };
    (@ $inner:tt flush) => {
        $crate::pass_on!(= $inner flush() -> impl Future<Output = Result<(), $crate::VerbError>>);
    };
    (@ $inner:tt expect) => {
        $crate::pass_on!(= $inner expect(at: $crate::Address, bytes: u64, intent: $crate::Intent) -> bool);
    };
    (@ $inner:tt purpose) => {
        $crate::pass_on!(= $inner purpose(purpose: $crate::Purpose) -> $crate::Purpose);
    };
    (@ $inner:tt reach) => {
        $crate::pass_on!(= $inner reach(node: u8) -> impl Future<Output = Result<(), $crate::VerbError>>);
    };
    (@ $inner:tt region_state) => {
        $crate::pass_on!(= $inner region_state(node: u8) -> impl Future<Output = $crate::RegionState>);
    };
    (@ $inner:tt silent) => {
        $crate::pass_on!(= $inner silent() -> u64);
    };
    (@ $inner:tt has_ended) => {
        $crate::pass_on!(= $inner has_ended(who: $crate::Identity) -> impl Future<Output = Result<bool, $crate::VerbError>>);
    };
    (@ $inner:tt forsake) => {
        $crate::pass_on!(= $inner forsake(node: u8) -> impl Future<Output = Result<(), $crate::VerbError>>);
    };
    (@ $inner:tt remove_forsaken) => {
        $crate::pass_on!(= $inner remove_forsaken(node: u8, is_it: &dyn Fn(&[u64]) -> bool) -> impl Future<Output = bool>);
    };
    (@ $inner:tt end) => {
        $crate::pass_on!(= $inner end() -> ());
    };
    (@ $inner:tt is_over) => {
        $crate::pass_on!(= $inner is_over() -> bool);
    };
    (@ $inner:tt find_place) => {
        $crate::pass_on!(= $inner find_place(node: u8, is_it: &dyn Fn(&str) -> bool) -> bool);
    };
    (@ $inner:tt place) => {
        $crate::pass_on!(= $inner place(node: u8) -> Option<String>);
    };
    (@ $inner:tt remake) => {
        $crate::pass_on!(= $inner remake(node: u8, bytes: u64) -> impl Future<Output = Result<(), $crate::VerbError>>);
    };
    (@ $inner:tt export) => {
        $crate::pass_on!(= $inner export(wanted: $crate::RegionAttributes) -> Result<$crate::Address, $crate::FabricError>);
    };
    (@ $inner:tt reach_export) => {
        $crate::pass_on!(= $inner reach_export(at: $crate::Address) -> Result<$crate::RegionAttributes, $crate::VerbError>);
    };
    (@ $inner:tt reach_export_if) => {
        $crate::pass_on!(= $inner reach_export_if(at: $crate::Address, word: u64) -> Result<bool, $crate::VerbError>);
    };
    (@ $inner:tt follow) => {
        $crate::pass_on!(= $inner follow(at: $crate::Address) -> Result<(), $crate::FabricError>);
    };
    (@ $inner:tt own_word) => {
        $crate::pass_on!(= $inner own_word(at: $crate::Address) -> Option<u64>);
    };
    (@ $inner:tt provide) => {
        $crate::pass_on!(= $inner provide(at: $crate::Address, bytes: u64) -> impl Future<Output = Result<bool, $crate::VerbError>>);
    };
    (@ $inner:tt discard) => {
        $crate::pass_on!(= $inner discard(at: $crate::Address, bytes: u64) -> impl Future<Output = Result<u64, $crate::VerbError>>);
    };
    (@ $inner:tt region_attributes) => {
        $crate::pass_on!(= $inner region_attributes(node: u8) -> Option<$crate::RegionAttributes>);
    };
    (@ $inner:tt region_bytes) => {
        $crate::pass_on!(= $inner region_bytes(node: u8) -> Option<u64>);
    };
    (@ $inner:tt provided) => {
        $crate::pass_on!(= $inner provided(node: u8) -> u64);
    };
    (@ $inner:tt note_provided) => {
        $crate::pass_on!(= $inner note_provided(node: u8, bytes: u64) -> ());
    };
    (@ $inner:tt charge) => {
        $crate::pass_on!(= $inner charge(ns: u64) -> ());
    };
    (@ $inner:tt wait) => {
        $crate::pass_on!(= $inner wait() -> ());
    };
    (@ $inner:tt arrivals) => {
        $crate::pass_on!(= $inner arrivals() -> Option<&dyn $crate::Arrivals>);
    };
    (@ $inner:tt pause) => {
        $crate::pass_on!(= $inner pause(ns: u64) -> impl Future<Output = ()>);
    };
    (@ $inner:tt now_ns) => {
        $crate::pass_on!(= $inner now_ns() -> u64);
    };
    (@ $inner:tt unix_ms) => {
        $crate::pass_on!(= $inner unix_ms() -> u64);
    };
    (@ $inner:tt agent_ms) => {
        $crate::pass_on!(= $inner agent_ms() -> Option<u64>);
    };
    (@ $inner:tt boot) => {
        $crate::pass_on!(= $inner boot() -> Option<u64>);
    };
    (@ $inner:tt random) => {
        $crate::pass_on!(= $inner random() -> u64);
    };
    (@ $inner:tt traffic) => {
        $crate::pass_on!(= $inner traffic() -> $crate::Traffic);
    };
    (@ $inner:tt limits) => {
        $crate::pass_on!(= $inner limits() -> $crate::Limits);
    };
    (@ $inner:tt is_near) => {
        $crate::pass_on!(= $inner is_near() -> bool);
    };
    (@ $inner:tt keeps_order) => {
        $crate::pass_on!(= $inner keeps_order() -> bool);
    };
    (@ $inner:tt identity) => {
        $crate::pass_on!(= $inner identity() -> $crate::Identity);
    };
    (@ $inner:tt origin) => {
        $crate::pass_on!(= $inner origin() -> $crate::Origin);
    };
    (@ $inner:tt is_dead) => {
        $crate::pass_on!(= $inner is_dead(who: $crate::Identity) -> impl Future<Output = Result<bool, $crate::VerbError>>);
    };
    (@ $inner:tt shut_out) => {
        $crate::pass_on!(= $inner shut_out(who: $crate::Identity) -> impl Future<Output = Result<bool, $crate::VerbError>>);
    };
    (@ $inner:tt fabric) => {
        $crate::pass_on!(= $inner fabric() -> &'static str);
    };
    (@ $inner:tt mailbox) => {
        $crate::pass_on!(= $inner mailbox() -> $crate::Mailbox);
    };
    (@ $inner:tt sign) => {
        $crate::pass_on!(= $inner sign(sender: $crate::Sender) -> ());
    };
    (@ $inner:tt send) => {
        $crate::pass_on!(= $inner send(to: $crate::Mailbox, bytes: &[u8]) -> Result<(), $crate::MessageError>);
    };
    (@ $inner:tt receive) => {
        $crate::pass_on!(= $inner receive() -> impl Future<Output = $crate::Message>);
    };
    (@ $inner:tt receive_within) => {
        $crate::pass_on!(= $inner receive_within(ns: u64) -> impl Future<Output = Option<$crate::Message>>);
    };
    (= $inner:tt $method:ident($($argument:ident: $Argument:ty),*) -> $Result:ty) => {
        #[inline(always)]
        fn $method(&self, $($argument: $Argument),*) -> $Result {
            self.$inner.$method($($argument),*)
        }
    };
}
