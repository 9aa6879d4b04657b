//! The bytes of the Redis protocol.
//!
//! | module | concept |
//! |---|---|
//! | [`parser`] | commands out of the bytes that a peer sent |
//! | [`inline`] | commands as a person types them |
//! | [`reply`] | replies into those bytes, in RESP2 or RESP3 |

pub mod inline;
pub mod parser;
pub mod reply;

pub use parser::{Args, Parser, ProtocolError};
pub use reply::{Protocol, Reply};
