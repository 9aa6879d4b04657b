//! Every fault does what it says, all that it may and nothing more.
//!
//! | module | faults |
//! |---|---|
//! | `clients` | of clients |
//! | `surroundings` | of what is around them |
//! | `drawn` | drawn from a seed |

mod clients;
mod drawn;
mod surroundings;
mod words;
