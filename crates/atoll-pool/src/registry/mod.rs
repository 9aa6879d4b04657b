//! Clients: incarnations, what they protect, and how dead ones are shut out.
//!
//! A client may be Fenced while it runs: a fabric forced it, or words were damaged.
//! [`Member::check`] tells it. A client asks every round, and after every word that it did not
//! expect, before it acknowledges anything.
//!
//! A client may say that it is at rest: no operation of it is under way, and it remembers nothing.
//! Before it looks at anything it ends the rest, and waits for that to land ([`Member::begin`],
//! [`Member::rest`]). So a client that waits for operations under way ([`Grace`]) waits for no idle
//! client.
//!
//! An incarnation is alive from Joining to the end of Taken. A reader may READ a word that names an
//! incarnation, and later find in the registry that it is not alive. Then that incarnation never
//! writes again.
//!
//! | module | concept |
//! |---|---|
//! | [`place`] | the words of a place |
//! | `places` | how places are READ |
//! | `member` | a client's own place |
//! | [`protection`] | chunks that must not be reused while operations rely on them |
//! | `fence` | how clients that died, or stand still, are shut out |
//! | `neighbours` | whom a client looks after |
//! | `watch` | who stands still, and whose operations of before have ended |
//! | `counts` | objects in the pool |
//! | `times` | how long a client may stand still |

mod counts;
mod fence;
mod member;
mod neighbours;
pub mod place;
mod places;
pub mod protection;
mod times;
mod watch;

pub use counts::{objects, objects_exact};
pub use fence::{Roll, declare_dead, fence_dead, fence_still, fence_suspect, free};
pub use member::Member;
pub(crate) use neighbours::Neighbours;
pub use neighbours::Reach;
pub use place::{Incarnation, PROTECTIONS, Place, PlaceState, is_quiet, was_quiet};
pub use places::{is_still, origin, places};
pub(crate) use places::{members_ever, some_places};
pub use protection::{Protection, protected_chunks};
pub use times::Times;
pub use watch::{Grace, Observer, Watch};
