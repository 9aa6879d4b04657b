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
//! | [`queues`] | several caches of `forge`'s two queues, which differ in rule and capacity, on one table of keys |
//! | [`choice`] | a client's rule among several, and the curve of hit ratio by capacity |
//!
//! [`experts`](crate::experts) has the miniatures of `ditto`: one for each policy.
//!
//! **Scale.** A client sees its own requests alone: with many clients, a small part of all. A
//! miniature of the whole pool would evict hardly any of so few objects, and learn nothing. So a
//! client's miniatures model its share of the cache: the objects, divided by the clients of the
//! pool. It knows the number of clients from the numbers of its own evictions among all of the
//! pool's, at no cost.
//!
//! | requests | what a miniature of a share models |
//! |---|---|
//! | clients have keys of their own, or popularity passes | what the pool does; with many clients, each follows the rule that is best for its own keys |
//! | all clients ask for the same popular keys | a cache that is too small, for all rules alike |

pub mod choice;
pub mod queues;
pub mod sample;
