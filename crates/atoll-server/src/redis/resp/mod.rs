//! The bytes of the Redis protocol.
//!
//! | module | concept |
//! |---|---|
//! | [`parser`] | parses the commands that a peer sent |
//! | [`inline`] | commands as a person types them |
//! | [`reply`] | writes replies, in RESP2 or RESP3 |

pub mod inline;
pub mod parser;
pub mod reply;

pub(crate) use inline::{is_blank, words};
pub use parser::{Args, Parser, ProtocolError};
pub use reply::{Protocol, Reply};
