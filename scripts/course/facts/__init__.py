"""What several pages say of the course: its parts, doors, routes and minutes, and kept outputs."""
