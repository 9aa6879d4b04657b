//! Clients: incarnations, protections, and how dead clients are shut out.
//!
//! A client may be Fenced while it runs: the fabric forced it, or words were damaged. It finds out
//! by [`Member::check`]. It calls this in every round and after every unexpected word, before it
//! acknowledges anything.
//!
//! A client may announce that it is at rest: it runs no operation, and remembers nothing. Before it
//! reads anything it ends the rest, and waits until that WRITE has landed ([`Member::begin`],
//! [`Member::rest`]). So a client that waits for running operations ([`Grace`]) waits for no idle
//! client.
//!
//! An incarnation is alive from Joining to the end of Taken. A reader may READ a word that names an
//! incarnation, and find later in the registry that it is not alive. Then that incarnation never
//! writes again.
//!
//! | module | concept |
//! |---|---|
//! | [`place`] | the words of a place |
//! | `places` | how places are READ |
//! | `member` | a client's own place |
//! | [`protection`] | chunks that must not be reused while operations rely on them |
//! | `protected` | how another client READs which chunks are protected |
//! | `fence` | how dead or stalled clients are shut out |
//! | `neighbours` | the clients that a client monitors |
//! | `watch` | which clients stand still, and whose older operations have ended |
//! | `counts` | objects in the pool |
//! | `times` | how long a client may stand still |

mod counts;
mod fence;
mod member;
mod neighbours;
pub mod place;
mod places;
pub(crate) mod protected;
pub mod protection;
mod times;
mod watch;

pub use counts::{lookups, objects, objects_exact};
pub(crate) use fence::count_death;
pub use fence::{Roll, declare_dead, fence_dead, fence_still, fence_suspect, free};
pub use member::Member;
pub(crate) use neighbours::Neighbours;
pub use neighbours::Reach;
pub use place::{Incarnation, Lookups, PROTECTIONS, Place, PlaceState, is_quiet, was_quiet};
pub(crate) use places::{NodeUsers, is_node_used, members_ever, node_users, some_places};
pub use places::{is_still, origin, places};
pub use protected::protected_among;
pub use protection::Protection;
pub use times::Times;
pub use watch::{Grace, Observer, Watch};
