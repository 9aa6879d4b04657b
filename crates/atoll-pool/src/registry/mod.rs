//! Who is a client: incarnations, what they protect, and how those that died are shut out.
//!
//! A client may be Fenced while it runs: a fabric forced it, or words were damaged.
//! [`Member::check`] tells it. A client asks every round, and after every word that it did not
//! expect, before it acknowledges anything.
//!
//! A client may say that it is at rest: nothing that it does is under way, and it remembers
//! nothing. It says that it is not, and waits for that to land, before it looks at anything
//! ([`Member::begin`], [`Member::rest`]); so nobody who waits for operations under way ([`Grace`])
//! waits for a client that does nothing.
//!
//! An incarnation is alive from Joining to the end of Taken. One that a word names and that is not
//! alive, by a look at the registry later than the look at the word, will never write again.
//!
//! | module | concept |
//! |---|---|
//! | [`place`] | the words of a place |
//! | `places` | how places are READ |
//! | `member` | a client's own place |
//! | [`protection`] | chunks that operations must not see used anew |
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
