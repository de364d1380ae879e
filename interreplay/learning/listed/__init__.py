"""Networks that the setting ``network`` lists layer by layer."""
