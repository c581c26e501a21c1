//! What to do about what is known. Pure: no async, client, clock, environment, randomness or logging; now is a
//! value. Every function here answers for one key, reads the whole [`World`](crate::model::World), and gives
//! the same answer for the same world.

mod need;

pub use need::Need;
