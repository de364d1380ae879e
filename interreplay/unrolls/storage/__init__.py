"""Where unrolls lie: slots, who takes which, frames once, and what is known of each."""
