//! What another form of FORGE does otherwise than the engine that is shipped.
//!
//! The paper measures FORGE without one or the other of its techniques (FORGE 6.7), and compares it
//! with groups that trees judge (FORGE 6.1). Such forms are types of their own that implement
//! [`Technique`]. Every method has a default: what the shipped engine does. The calls are static,
//! so that the shipped engine holds nothing of the other forms.

use atoll_fabric::Endpoint;

/// One form of FORGE.
pub trait Technique<E: Endpoint>: Default {}

/// The engine as it is shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shipped;

impl<E: Endpoint> Technique<E> for Shipped {}
