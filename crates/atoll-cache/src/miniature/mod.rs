//! Miniatures: small models of a cache in a client's own memory, on a sample of the keys. After
//! Waldspurger et al., "Cache modeling and optimization using miniature simulations", USENIX ATC
//! 2017.
//!
//! A cache of N objects and a share s of the keys is like a cache of s N objects. So a client
//! learns what another rule, or another capacity, would do to its own requests. It costs no verb.
//!
//! | module | concept |
//! |---|---|
//! | [`sample`] | which keys are in the sample, and which part of the pool a client models |
//! | [`overlap`] | whether others ask for the client's keys too |
//! | [`queues`] | several caches of `forge`'s two queues, which differ in rule and capacity, on one table of keys |
//! | [`choice`] | a client's rule among several, and the curve of hit ratio by capacity |
//!
//! [`experts`](crate::experts) has the miniatures of `ditto`: one for each policy.
//!
//! **Scale.** A client sees its own requests alone: with many clients, a small part of all. A
//! miniature models the objects that the client's keys compete for. With keys of its own, these
//! are the pool's objects divided by its clients. A client knows the number of clients from the
//! numbers of its own evictions among all of the pool's, at no cost. If clients ask for the same
//! keys, they are more, up to the whole pool: [`overlap`] tells.

pub mod choice;
pub mod overlap;
pub mod queues;
pub mod sample;
