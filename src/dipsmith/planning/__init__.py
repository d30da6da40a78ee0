"""What a run will ask and cost, from public facts."""
