//! oxb-core
