//! oxb-py
