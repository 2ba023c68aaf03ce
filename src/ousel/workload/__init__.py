"""What a measurement needs: sample data, and a load over HTTP."""
