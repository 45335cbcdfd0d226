//! oxb-bench
